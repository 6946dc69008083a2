"""A real browser that shows a page of somebody else, on another port: nothing that the page tries changes anything."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from tests.conftest import POINTED_HERE
from tests.served import OwnProcess

FOREIGN_PAGE = b"""<!doctype html><html><head><meta charset="utf-8"><title>somebody else</title></head>
<body><form id="form" method="post" enctype="text/plain" target="frame"><input name="x"></form>
<iframe name="frame" id="frame"></iframe></body></html>"""
# Each attempt of the page; it gives "done" if the browser says that the controller took it, else what went wrong.
TRIES = {
    "fetch": """async (target) => { let taken = 0;
        for (const [method, path, body] of [
            ["POST", "/v1/streams/s/seal", "{}"],
            ["POST", "/v1/streams/s/truncate", '{"head": {"0": 1}}'],
            ["POST", "/v1/streams/s/writers/w/exclude", ""],
            ["POST", "/v1/streams/s/notes", '{"writer": "evil", "time": 9, "position": {"0": 9}}'],
            ["POST", "/sign-out", ""]]) {
          for (const kind of ["text/plain", "application/x-www-form-urlencoded", null]) {
            const sent = kind === null ? new Blob([body]) : new Blob([body], {type: kind});
            await fetch(target + path, {method, mode: "no-cors", credentials: "include", body: sent})
              .then(() => { taken += 1 }, () => {});
          } } return taken ? "done" : "refused" }""",
    "with JSON": """async (target) => { try { await fetch(target + "/v1/streams/s", {method: "DELETE"}); return "done" }
        catch (error) { return error.name } }""",
    "reading": """async (target) => { try { return await (await fetch(target + "/v1/streams")).text() }
        catch (error) { return error.name } }""",
    "form": """async (target) => {
        const form = document.getElementById("form"), frame = document.getElementById("frame");
        form.action = target + "/v1/streams/s/notes";
        form.elements[0].name = '{"writer":"evil","time":9,"position":{},"x":"'; form.elements[0].value = '"}';
        const loaded = new Promise(resolve => frame.onload = resolve); form.submit(); await loaded;
        return "sent" }""",
    "image": """(target) => new Promise(resolve => { const image = new Image();
        image.onload = () => resolve("done"); image.onerror = () => resolve("refused");
        image.src = target + "/v1/streams/s/marks?x" })""",
    "script": """(target) => new Promise(resolve => { const script = document.createElement("script");
        script.onload = () => resolve("done"); script.onerror = () => resolve("refused");
        script.src = target + "/openapi.json"; document.body.append(script) })""",
    "websocket": """(target) => new Promise(resolve => {
        const socket = new WebSocket(target.replace("http", "ws"));
        socket.onopen = () => resolve("done"); socket.onerror = () => resolve("refused") })""",
    "events": """(target) => new Promise(resolve => {
        const source = new EventSource(target + "/v1/streams/s/marks/live");
        source.onmessage = source.onopen = () => resolve("done"); source.onerror = () => resolve("refused") })""",
}
EXPECTED = {
    "fetch": "refused",
    "with JSON": "TypeError",
    "reading": "TypeError",
    "form": "sent",  # what became of it is looked at below
    "image": "refused",
    "script": "refused",
    "websocket": "refused",
    "events": "refused",
}


class Foreign(BaseHTTPRequestHandler):
    """Serves the page of somebody else."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(FOREIGN_PAGE)))
        self.end_headers()
        self.wfile.write(FOREIGN_PAGE)

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture(scope="module")
def elsewhere() -> Iterator[str]:
    """The address of another server, on this machine."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Foreign)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="module")
def open_to_all(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OwnProcess]:
    """A controller without tokens: whoever reaches it may do everything."""
    process = OwnProcess(tmp_path_factory.mktemp("browser") / "store.db", "--access-log")
    client = process.client
    client.put(
        "/v1/streams/s", json={"segments": 1, "mark_interval_ms": 0, "max_ahead_ms": None, "writer_timeout_ms": None}
    )
    client.post("/v1/streams/s/notes", json={"writer": "w", "time": 1, "position": {"0": 1}})
    yield process
    assert process.stop() == 0
    assert "Traceback" not in process.log


@pytest.fixture(scope="module")
def context(browser: Browser) -> Iterator[BrowserContext]:
    """One visitor, whose browser keeps what pages have loaded."""
    context = browser.new_context()
    yield context
    context.close()


@pytest.fixture
def page(context: BrowserContext) -> Iterator[Page]:
    page = context.new_page()
    yield page
    page.close()


def state(process: OwnProcess) -> list[object]:
    paths = ("/v1/streams/s", "/v1/streams/s/writers", "/v1/streams/s/marks", "/v1/streams/s/journal", "/v1/streams")
    return [process.client.get(path).json() for path in paths]


def test_a_foreign_page_changes_nothing_and_sees_nothing(open_to_all: OwnProcess, elsewhere: str, page: Page) -> None:
    before = state(open_to_all)
    for origin in (elsewhere, elsewhere.replace("127.0.0.1", POINTED_HERE)):  # of the same site, and of another
        page.goto(origin)
        found = {name: page.evaluate(script, open_to_all.url) for name, script in TRIES.items()}
        assert found == EXPECTED
    assert state(open_to_all)[1:] == before[1:]

    own = page.context.new_page()
    own.goto(f"{open_to_all.url}/streams/s/writers/w")
    own.get_by_role("button", name="Exclude").click()
    own.get_by_role("dialog").get_by_role("button", name="Exclude").click()
    expect(own.get_by_text("excluded: writer w")).to_be_visible()
    own.close()
    assert state(open_to_all)[1] != before[1]


def test_a_rebound_name_opens_no_page_and_changes_nothing(open_to_all: OwnProcess, page: Page) -> None:
    """DNS rebinding: for the browser the page and the controller are of one origin then."""
    url = open_to_all.url.replace("127.0.0.1", POINTED_HERE)
    before = state(open_to_all)
    for path in ("/", "/docs", "/v1/streams"):
        answer = page.goto(url + path)
        assert answer is not None and answer.status == 421 and answer.json()["code"] == "wrong_host"
    # The page that came from somebody else before the name was pointed here.
    page.route("**/before", lambda route: route.fulfill(body="<h1>a page</h1>", content_type="text/html"))
    page.goto(f"{url}/before")
    for method, path in (("DELETE", "/v1/streams/s"), ("POST", "/v1/streams/s/seal"), ("GET", "/v1/streams")):
        asked = "async ([path, method]) => (await fetch(path, {method})).status"
        assert page.evaluate(asked, [path, method]) == 421
    assert state(open_to_all)[1:] == before[1:]


def test_a_foreign_page_cannot_show_a_page_in_a_frame(open_to_all: OwnProcess, elsewhere: str, page: Page) -> None:
    said: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    page.goto(elsewhere)
    with page.expect_event("console", lambda message: "frame" in message.text):
        page.evaluate("(target) => { document.getElementById('frame').src = target }", open_to_all.url)
    assert "Content-Security-Policy" in said[-1] or "X-Frame-Options" in said[-1] or "frame-ancestors" in said[-1]


# What stands on a page.
BUTTONS: dict[str, str | re.Pattern[str]] = {
    "/streams/s": "Configure",
    "/streams/s/writers/w": re.compile("Exclude|Include"),
    "/sign-in": "Sign in",
}
PAGES = ("/", "/streams/s", "/streams/s/writers/w", "/streams/none", "/sign-in", "/docs", "/none-such")


@pytest.mark.parametrize("path", PAGES)
def test_a_page_works_under_its_policy_and_breaks_it_nowhere(open_to_all: OwnProcess, page: Page, path: str) -> None:
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.add_init_script(
        "window.broken = []; document.addEventListener('securitypolicyviolation', "
        "event => window.broken.push(event.violatedDirective + ' ' + event.blockedURI))"
    )
    answer = page.goto(open_to_all.url + path)
    assert answer is not None and "content-security-policy" in answer.headers
    expect(page.get_by_role("heading").first).to_be_visible()
    if path in BUTTONS:
        expect(page.get_by_role("button", name=BUTTONS[path])).to_be_visible()
    assert page.evaluate("window.broken") == []
    assert [url for url in asked if not url.startswith((open_to_all.url, "data:"))] == []


def test_a_script_that_somebody_gets_into_a_page_does_not_run(open_to_all: OwnProcess, page: Page) -> None:
    page.goto(open_to_all.url)
    expect(page.get_by_role("heading").first).to_be_visible()
    broken = page.evaluate("""async () => { window.ran = 0; let broken = 0;
        const three = new Promise(resolve => document.addEventListener(
            "securitypolicyviolation", () => { broken += 1; if (broken === 3) resolve() }));
        const place = document.body.appendChild(document.createElement("div"));
        place.innerHTML = '<img src="x:" onerror="window.ran += 1">';
        place.appendChild(document.createElement("script")).textContent = "window.ran += 1";
        place.appendChild(document.createElement("script")).src = "http://127.0.0.1:1/x.js";
        await three; return broken }""")
    assert (broken, page.evaluate("window.ran")) == (3, 0)
