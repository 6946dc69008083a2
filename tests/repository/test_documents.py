"""What the documents tell a reader to type works, and the versions that they name agree."""

import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest

DOCUMENTS = ["README.md", "CONTRIBUTING.md", "docs/benchmarks.md"]
READERS = "docs/readers.md"  # has commands that make up its tables
SHELL_BLOCK = re.compile(r"^```(?:sh|bash|shell|console)\n(.*?)^```", re.MULTILINE | re.DOTALL)
README_STREAM = "tests/readme/test_readme.py::test_the_readme_creates_a_stream_and_its_writer_notes"
BENCHMARKS = "tests/benchmarks/test_all.py::test_a_quick_run_shows_all_of_the_page"
# Commands that are no make targets: how each begins, and the test that runs it as the document has it.
RUN_BY = {
    ".venv/bin/python -m benchmarks --quick": BENCHMARKS,
    ".venv/bin/python -m benchmarks.disorder": BENCHMARKS,
    ".venv/bin/python -m benchmarks.order": "tests/benchmarks/test_all.py::test_that_of_order_shows_all_of_its_rows",
    "pip install": "tests/repository/test_wheel.py::test_the_readmes_pip_install_gives_the_packages_and_the_command",
    "strandline assess": "tests/logs/test_kafka_page.py::test_the_readmes_command_says_what_a_delay_loses_in_a_topic",
    "strandline create": README_STREAM,
    "strandline demo": "tests/demo/test_plain_run.py::test_windows_are_whole_where_a_delay_loses_some_without_spark",
    "strandline serve": README_STREAM,
}
TASKS = "tests/readme/test_pages.py::test_a_task_can_be_done_as_its_page_says"
SPARK_PROGRAMS = "tests/spark_shell/test_programs.py::test_the_programs_of_a_page_do_what_it_says"
SPARK_TASKS = "tests/spark/test_documents.py::test_a_task_for_spark_can_be_done_as_its_page_says"
DEPLOYING = "tests/deploy/test_pages.py::test_what_a_page_about_deploying_shows_is_there"
EXPLANATIONS = "tests/readme/test_explanations.py::test_the_code_of_an_explanation_prints_what_the_page_says"
# Pages with blocks, and the tests that run them all; TASKS runs those of other tasks, if it names them.
RUN = {
    "docs/benchmarks.md": (BENCHMARKS,),
    "docs/command-line.md": (
        "tests/readme/test_pages.py::test_every_command_of_the_page_about_the_command_line_does_something",
        "tests/logs/test_kafka_page.py::test_the_commands_that_watch_a_topic_do",
    ),
    "docs/dashboard.md": ("tests/readme/test_pages.py::test_the_page_about_the_dashboard_begins_with_what_serves_it",),
    "docs/how-to/alerts.md": (
        "tests/readme/test_pages.py::test_the_page_about_alerts_sets_them_up_and_knows_every_one",
    ),
    "docs/how-to/append-only-table.md": (SPARK_PROGRAMS,),
    "docs/how-to/clocks.md": ("tests/readme/test_pages.py::test_the_page_about_clocks_has_the_way_out",),
    "docs/how-to/backfill.md": (SPARK_TASKS,),
    "docs/how-to/backup.md": ("tests/controller/test_backup.py::test_the_pages_commands_do_what_it_says",),
    "docs/how-to/chained-jobs.md": (SPARK_TASKS,),
    "docs/how-to/existing-kafka-topic.md": (
        "tests/logs/test_kafka_page.py::test_the_page_about_an_existing_topic_makes_its_windows_exact",
    ),
    "docs/how-to/declarative-pipelines.md": (SPARK_PROGRAMS,),
    "docs/how-to/deploy-on-kubernetes.md": (DEPLOYING,),
    "docs/how-to/deploy-with-compose.md": (DEPLOYING,),
    "docs/how-to/deploy-with-systemd.md": (DEPLOYING,),
    "docs/how-to/keep-it-running.md": (
        "tests/readme/test_pages.py::test_the_page_about_running_a_controller_rescues_a_store_that_was_removed",
    ),
    "docs/how-to/postgresql-failover.md": (
        DEPLOYING,
        "tests/deploy/test_failover.py::test_nothing_answered_is_lost_when_a_synchronous_standby_is_promoted",
    ),
    "docs/how-to/run-when-complete.md": (
        "tests/readme/test_schedulers.py::test_the_page_can_be_done_and_every_file_of_it_is_well_formed",
        "tests/readme/test_schedulers.py::test_airflows_sensor_is_done_when_the_hour_is_complete",
    ),
    "docs/how-to/notes-through-kafka.md": (
        "tests/logs/test_kafka_page.py::test_the_page_about_notes_through_kafka_relays_what_a_console_producer_says",
        "tests/logs/test_kafka_page.py::test_the_records_of_that_page_are_notes",
    ),
    "docs/how-to/other-languages.md": (
        "tests/readme/test_languages.py::test_curl_writes_and_reads_as_the_page_about_other_languages_shows",
        "tests/readme/test_languages.py::test_a_program_with_a_standard_library_alone_writes_and_reads",
    ),
    "docs/how-to/tokens-and-tls.md": (
        "tests/tokens/test_serving.py::test_the_page_about_tokens_and_tls_lets_in_whom_it_says",
    ),
    "docs/how-to/spark-sql-and-scala.md": (
        "tests/spark_shell/test_page.py::test_sql_and_scala_find_the_source_and_close_exact_windows",
    ),
    "docs/how-to/several-controllers.md": (
        "tests/readme/test_pages.py::test_the_page_about_several_controllers_starts_two_at_one_port",
    ),
    "docs/how-to/topic-to-table.md": (
        "tests/spark_shell/test_programs.py::test_the_page_from_a_topic_to_a_table_makes_right_sums",
    ),
    "docs/how-to/upgrade.md": ("tests/migrations/test_schema.py::test_the_commands_of_the_page_do_what_it_says",),
    "docs/kafka.md": ("tests/logs/test_kafka_page.py::test_the_page_about_kafka_notes_what_it_says",),
    "docs/quickstart.md": (
        "tests/spark/test_documents.py::test_the_quickstart_gets_the_same_windows_in_python_and_in_spark",
    ),
    "docs/readers.md": (
        "tests/readme/test_pages.py::test_the_page_about_readers_reads_what_was_written",
        *(test for command, test in RUN_BY.items() if "benchmarks." in command),
    ),
    "docs/spark.md": ("tests/spark/test_documents.py::test_the_page_about_spark_shows_jobs_that_run",),
    "docs/testing.md": ("tests/testing/test_document.py::test_the_examples_are_a_test_module_that_passes",),
    "docs/writers.md": ("tests/readme/test_pages.py::test_the_page_about_writers_notes_what_it_says",),
}
OF_THEIR_OWN = ("decisions", "reference")  # neither tells anybody what to type; the reference is written from the code
LANGUAGES = {"bash", "go", "ini", "java", "json", "python", "scala", "sh", "sql", "text", "ts", "yaml"}
LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
GETTING_THE_CODE = ("git clone ", "cd ", "python3 -m venv ")


def commands(text: str) -> list[str]:
    """The commands in a document's shell blocks; lines that end with a backslash are joined."""
    blocks = "".join(SHELL_BLOCK.findall(text)).replace("\\\n", " ")
    lines = (re.split(r"\s#\s", line, maxsplit=1)[0].strip() for line in blocks.splitlines())
    return [line for line in lines if line and not line.startswith("#")]


def is_tested(command: str, root: Path) -> bool:
    """Whether a test runs the command; make targets are looked at one by one elsewhere."""
    for beginning, test in RUN_BY.items():
        if command.startswith(beginning):
            file, _, name = test.partition("::")
            return f"def {name}(" in (root / file).read_text()
    return False


@pytest.mark.parametrize("document", [*DOCUMENTS, READERS])
def test_every_command_is_a_make_target_or_run_by_a_test(document: str, root: Path) -> None:
    found = commands((root / document).read_text())
    others = [each for each in found if not each.startswith(("make ", *GETTING_THE_CODE))]
    assert found
    assert [each for each in others if not is_tested(each, root)] == []


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_make_command_is_one_that_make_knows(document: str, root: Path) -> None:
    for command in commands((root / document).read_text()):
        if command.startswith("make "):
            words = [*shlex.split(command), "--dry-run"]
            done = subprocess.run(words, cwd=root, capture_output=True, text=True, check=False)
            assert done.returncode == 0, f"{document}: {command}: {done.stderr}"


def pages(root: Path) -> dict[str, str]:
    """The pages under docs, but for those that are checked elsewhere, by their paths."""
    found = {str(file.relative_to(root)): file.read_text() for file in sorted((root / "docs").rglob("*.md"))}
    return {page: text for page, text in found.items() if page.split("/")[1] not in OF_THEIR_OWN}


def test_every_block_of_every_page_is_run_by_a_test(root: Path) -> None:
    tasks = re.findall(r'"([\w-]+)"', (root / TASKS.partition("::")[0]).read_text())
    for page, text in pages(root).items():
        fences = re.findall(r"^( *)```(.*)$", text, re.MULTILINE)
        assert all(indent == "" for indent, _ in fences), f"{page}: what is indented is not found by those who run it"
        languages = [language for _, language in fences[::2]]
        if page.startswith("docs/explanation/"):  # has drawings, without a language
            tests: tuple[str, ...] = (EXPLANATIONS,)
            languages = [language for language in languages if language]
        else:
            tests = RUN.get(page, (TASKS,) if Path(page).stem in tasks else ())
        assert set(languages) <= LANGUAGES, f"{page}: {set(languages) - LANGUAGES}"
        assert tests or not languages, f"{page} has blocks that no test runs: name one in RUN"
        for test in tests if languages else ():
            file, _, name = test.partition("::")
            assert f"def {name}(" in (root / file).read_text(), f"{page}: there is no {test}"


def test_the_index_has_every_page_once(root: Path) -> None:
    linked = LINK.findall((root / "docs" / "README.md").read_text())
    there = {str(file.relative_to(root / "docs")) for file in (root / "docs").rglob("*.md")}
    expected = {each for each in there if not each.startswith("decisions/")} - {"README.md"} | {"decisions/README.md"}
    assert sorted(linked) == sorted(expected)


def test_the_index_of_decisions_has_every_note_once(root: Path) -> None:
    folder = root / "docs" / "decisions"
    linked = LINK.findall((folder / "README.md").read_text())
    assert sorted(linked) == sorted(file.name for file in folder.glob("0*.md"))


def test_every_link_leads_somewhere(root: Path) -> None:
    for page in [*root.glob("*.md"), *(root / "docs").rglob("*.md")]:
        for link in LINK.findall(re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)):
            if "://" in link:
                continue
            target, _, anchor = link.partition("#")
            file = (page.parent / target).resolve() if target else page
            assert file.exists(), f"{page.relative_to(root)}: {link} leads nowhere"
            if anchor:
                assert anchor in headings(file.read_text()), f"{page.relative_to(root)}: {link} has no such heading"


def headings(text: str) -> set[str]:
    """The headings of a page, as links name them."""
    titles = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}


def test_every_test_that_a_page_names_is_there(root: Path) -> None:
    named = {
        (page.name, *match)
        for page in (root / "docs").rglob("*.md")
        for match in re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", page.read_text())
    }
    missing = [
        (page, file, name)
        for page, file, name in sorted(named)
        if not (root / file).is_file() or f"def {name}(" not in (root / file).read_text()
    ]
    assert named and missing == []


def test_continuous_integration_runs_what_the_pages_name_and_nothing_else(root: Path) -> None:
    named = [each for page in ("README.md", "CONTRIBUTING.md") for each in commands((root / page).read_text())]
    lines = (root / ".ci" / "run").read_text().splitlines()
    run = [line for line in lines if line and not line.startswith(("#", "set ", "cd ", "export "))]
    assert "make test" in run
    assert [line for line in run if line not in named] == []


def test_help_shows_every_target(root: Path) -> None:
    targets = re.findall(r"^\.PHONY: (.*)$", (root / "Makefile").read_text(), re.MULTILINE)[0].split()
    shown = subprocess.run(["make", "help"], cwd=root, capture_output=True, text=True, check=True).stdout
    assert sorted(re.findall(r"^  make (\w+)", shown, re.MULTILINE)) == sorted(targets)


def test_the_changelog_begins_with_the_version_of_the_project(root: Path, pyproject: dict[str, Any]) -> None:
    versions = re.findall(r"^## \[([^\]]+)\]", (root / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert versions[0] == pyproject["project"]["version"]
