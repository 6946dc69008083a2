"""Types that many threads meet at the same moment."""

from __future__ import annotations

import subprocess
import sys

# In a process of its own: where it goes wrong there is no exception to catch, the interpreter crashes, as it does with
# `msgspec.json.Decoder` in place of `shapes.decoder_of`.
MEET = """
import sys, threading, types
from strandline.wire import shapes

sys.setswitchinterval(1e-6)
SOURCE = '''
from __future__ import annotations
import msgspec

class Inner(msgspec.Struct):
    number: int
    inner: Inner | None = None

class Outer(msgspec.Struct):
    one: Inner
    many: dict[str, Inner] = {}
    outer: Outer | None = None
'''
failed = []
for count in range(300):
    module = types.ModuleType(f"made{count}")
    sys.modules[module.__name__] = module
    exec(SOURCE, module.__dict__)
    barrier = threading.Barrier(8)

    def meet():
        try:
            barrier.wait()
            assert shapes.decoder_of(module.Outer).decode(b'{"one": {"number": 1}}').one.number == 1
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=meet) for _ in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
assert not failed, failed
"""


def test_threads_that_meet_a_type_at_once_all_decode() -> None:
    done = subprocess.run([sys.executable, "-c", MEET], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
