"""What the template does to its memory before it forks, in the interpreter that runs this."""

import pathlib
import subprocess
import sys
import textwrap
import unittest

_GUEST = str(pathlib.Path(__file__).parent.parent / "python")

_HEAD = f"""
import gc, sys
sys.path.insert(0, {_GUEST!r})
from belljar_guest import sharing
held = sharing.reserve(16)
import asyncio, collections, ctypes, decimal, email.message, json, logging, os, random, threading, weakref
words = [f"word {{n}}" for n in range(200_000)]
table = {{n: (n, str(n)) for n in range(50_000)}}
del held
gc.collect(); gc.disable(); gc.freeze()
def areas():
    with open("/proc/self/maps") as file:
        return [line.split()[1] for line in file if ".so" in line]
before = areas()
sharing.merge_areas()
sharing.share()
gc.enable()
"""

# Every size of object is made and given back, and kept ones are looked at again.
_USE = """
def use():
    kept = []
    for round in range(3):
        made = [bytes([n % 251]) * (n % 700) for n in range(8_000)]
        made += [{n: [n, float(n)]} for n in range(8_000)]
        made += [object() for _ in range(20_000)]
        kept.append(made[::7])
        del made
        gc.collect()
    for made in kept:
        assert made == kept[0] or len(made) == len(kept[0])
        assert all(set(block) <= {block[0]} for block in made if type(block) is bytes and block)
    assert words[1234] == "word 1234" and table[777] == (777, "777")
    assert json.loads(json.dumps({"a": [1, 2.5, None]})) == {"a": [1, 2.5, None]}
    assert decimal.Decimal("1.1") + 1 == decimal.Decimal("2.1")
    thread = threading.Thread(target=lambda: None)
    thread.start(); thread.join()
"""


class Sharing(unittest.TestCase):
    def run_after(self, code):
        """Runs code in an interpreter that has shared its memory; returns what it printed."""
        code = _HEAD + _USE + textwrap.dedent(code)
        done = subprocess.run(
            [sys.executable, "-I", "-c", code], capture_output=True, text=True, timeout=120
        )
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout.split()

    def test_objects_of_the_template_are_immortal(self):
        counts = self.run_after("""
            for thing in (json.dumps, json.dumps.__code__, table, words[5], logging.Logger, table[9]):
                print(sys.getrefcount(thing))
        """)
        known = sys.version_info[:2] in ((3, 12), (3, 13))
        for count in map(int, counts):
            self.assertEqual(count == 0xFFFFFFFF, known, counts)

    def test_objects_of_a_session_end(self):
        self.run_after("""
            class Thing: pass
            thing = Thing()
            ended = []
            seen = weakref.ref(thing, lambda _: ended.append(1))
            del thing
            assert seen() is None and ended == [1]
            cycle = Thing(); cycle.self = cycle
            seen = weakref.ref(cycle)
            del cycle
            gc.collect()
            assert seen() is None
        """)

    def test_the_heap_is_sound(self):
        self.run_after("use()")

    def test_children_use_it_and_change_nothing(self):
        self.run_after("""
            for _ in range(3):
                child = os.fork()
                if child == 0:
                    try:
                        use()
                        ctypes.memset(id(words[7]) + sys.getsizeof(words[7]) - 2, ord("X"), 1)
                        assert words[7] == "word X"
                        words.clear(); table.clear(); sys.modules.clear()
                        gc.unfreeze(); gc.collect()
                    except BaseException as error:
                        print(repr(error), file=sys.stderr, flush=True)
                        os._exit(1)
                    os._exit(0)
                assert os.waitpid(child, 0)[1] == 0
            assert words[7] == "word 7" and len(table) == 50_000
            use()
        """)

    def test_the_heap_is_in_huge_pages(self):
        kilobytes, can = self.run_after("""
            import mmap
            memory = mmap.mmap(-1, 4 << 20, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
            memory.write(b"x" * (4 << 20))
            address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
            first = -(-address // (2 << 20)) * (2 << 20)
            can = sharing._madvise(first, 2 << 20, 25) == 0
            with open("/proc/self/smaps") as file:
                huge = [int(line.split()[1]) for line in file if line.startswith("AnonHugePages:")]
            print(sum(huge), can)
        """)
        if can == "True":
            self.assertGreater(int(kilobytes), 12 << 10)
        else:
            self.assertEqual(int(kilobytes), 0)

    def test_libraries_have_fewer_areas(self):
        before, after = self.run_after("""
            assert set(areas()) <= {"r-xp", "rw-p", "---p"}, areas()
            child = os.fork()
            if child == 0:
                use()
                os._exit(0)
            assert os.waitpid(child, 0)[1] == 0
            print(len(before), len(areas()))
        """)
        self.assertLess(int(after), 0.6 * int(before))


if __name__ == "__main__":
    unittest.main()
