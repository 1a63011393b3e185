"""gdb: lists green threads and walks their stacks, in living processes and core files.

    (gdb) source runtime/debug/green_gdb.py
    (gdb) info green              lists all; `info green TEXT` those whose line contains TEXT
    (gdb) green 17 bt             the stack of green thread 17; a name does, too, in quotes if it has blanks
    (gdb) green 17                enters it: now `bt`, `up`, `frame 3`, `info locals` work there, until `green off`
    (gdb) green all bt            all stacks, equal ones together
"""

import os
import re
import sys
import time

import gdb
import gdb.unwinder

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import green_threads

TRAMPOLINE = "stack_init_trampoline"
# The function that runs one green thread after another; what it calls is the green thread's entry.
# The newer names of symbols have the crate's hash behind its name, the older ones have a hash at their end.
ROOT = re.compile(r"\bsched(\[[0-9a-f]+\])?::stack::coro::root(::h[0-9a-f]+)? \(|\b" + TRAMPOLINE)


def symbol(name):
    """Returns the address of a symbol, or None. The expression is C, while gdb's language is Rust if a Rust frame is selected."""
    try:
        text = gdb.execute(f"with language c -- output/u (unsigned long)&{name}", to_string=True)
    except gdb.error:
        return None
    # A warning may follow: C is not the language of the selected frame.
    return int(re.search(r"\d+", text).group())


def machine():
    return "x86_64" if gdb.selected_inferior().architecture().name().startswith("i386:x86-64") else "aarch64"


def now():
    """Returns the clock of a core file, which ends when the file was written, or of the living process. See `Reader`."""
    if gdb.selected_inferior().connection.type != "core":
        return (0, time.clock_gettime_ns(time.CLOCK_MONOTONIC))
    # For example: `/tmp/core', file type elf64-x86-64.
    quoted = [line.split("`")[1] for line in gdb.execute("info files", to_string=True).splitlines() if "`" in line]
    paths = [text.split("'")[0] for text in quoted if os.path.exists(text.split("'")[0])]
    is_core = lambda path: path != (gdb.current_progspace().filename or "")
    return (1, next((os.stat(path).st_mtime_ns for path in paths if is_core(path)), 0))


def reader():
    inferior = gdb.selected_inferior()
    if not inferior.pid:
        raise gdb.GdbError("no process and no core file")

    def read(at, length):
        try:
            return inferior.read_memory(at, length).tobytes()
        except gdb.MemoryError:
            raise green_threads.Unreadable(at) from None

    return green_threads.Reader(read, symbol, machine(), now())


def stack_pointers():
    """Returns the OS threads by their stack pointers."""
    before, found = gdb.selected_thread(), []
    frame = gdb.selected_frame() if before else None
    for thread in gdb.selected_inferior().threads():
        thread.switch()
        found.append((int(gdb.newest_frame().read_register("sp")), thread))
    if before:
        before.switch()
        if frame and frame.is_valid():
            frame.select()
    return found


class Entered(gdb.unwinder.Unwinder):
    """Puts the frames of a suspended green thread below the newest frame of the selected OS thread. Nothing is written, so this works
    in core files."""

    def __init__(self):
        super().__init__("green threads")
        self.registers, self.ptid, self.trampoline, self.machine = None, None, None, None
        # How many frames of the OS thread are above those of the green thread.
        self.above = 0

    def enter(self, registers):
        self.above = frames_of_newest_function()
        self.registers, self.ptid, self.machine = registers, gdb.selected_thread().ptid, machine()
        self.trampoline = symbol(TRAMPOLINE)
        gdb.invalidate_cached_frames()

    def leave(self):
        if self.registers:
            self.registers = None
            gdb.invalidate_cached_frames()

    def __call__(self, pending):
        if self.registers is None or gdb.selected_thread().ptid != self.ptid:
            return None
        pc_name, fp_name = ("rip", "rbp") if self.machine == "x86_64" else ("pc", "x29")
        sp_name = "rsp" if self.machine == "x86_64" else "sp"
        pc, sp = int(pending.read_register(pc_name)), int(pending.read_register(sp_name))
        if pending.level() == self.above - 1:
            known = self.registers
            frame = pending.create_unwind_info(Id(known.sp - 64, pc))
            for name, value in [(pc_name, known.pc), (sp_name, known.sp), (fp_name, known.fp), *known.others.items()]:
                frame.add_saved_register(name, gdb.Value(value))
            return frame
        if self.trampoline and 0 <= pc - self.trampoline < 256 and "init_trampoline" in (name_at(pc) or ""):
            # The root of the stack: its link leads to the OS thread that ran it last.
            frame = pending.create_unwind_info(Id(sp + 64, pc))
            frame.add_saved_register(pc_name, gdb.Value(0))
            frame.add_saved_register(sp_name, gdb.Value(sp + 64))
            return frame
        return None


def frames_of_newest_function():
    """Returns how many frames the newest function of the selected OS thread has: one, and one for each function inlined there. A system
    call of musl is inlined."""
    frame, count = gdb.newest_frame(), 1
    while frame.type() == gdb.INLINE_FRAME:
        frame, count = frame.older(), count + 1
    return count


class Id:
    def __init__(self, sp, pc):
        self.sp, self.pc = gdb.Value(sp), gdb.Value(pc)


def name_at(pc):
    text = gdb.execute(f"info symbol {pc}", to_string=True)
    return None if text.startswith("No symbol") else text.split(" in section")[0]


ENTERED = Entered()
gdb.unwinder.register_unwinder(None, ENTERED, True)
# The frames of a process that goes on are its own again.
gdb.events.cont.connect(lambda event: ENTERED.leave())


def backtrace(green, running, options=""):
    """Returns the frames of `green` as gdb prints them. `running` has the OS threads that run green threads."""
    kept, thread = gdb.selected_thread(), running.get(green.id)
    try:
        if thread:
            ENTERED.leave()
            thread.switch()
            text = gdb.execute(f"bt {options}", to_string=True)
            return "\n".join(until_root(text))
        if not green.registers:
            return f"(no stack: {green.what()})"
        ENTERED.enter(green.registers)
        text = gdb.execute(f"bt {options}", to_string=True)
        return "\n".join(until_root(text, skip=ENTERED.above))
    finally:
        ENTERED.leave()
        kept.switch()


def until_root(text, skip=0):
    """Returns the lines of a backtrace up to the green thread's entry, without the first `skip` frames."""
    frame = -1
    for line in text.splitlines():
        if line.startswith("#"):
            frame += 1
            if ROOT.search(line):
                return
        if frame >= skip:
            yield line


def says_why(invoke):
    """Makes a command end with one line, instead of Python's traceback, if the program or its core file lacks something."""
    def command(self, arg, from_tty):
        try:
            invoke(self, arg, from_tty)
        except (green_threads.Missing, green_threads.Unreadable) as error:
            raise gdb.GdbError(str(error)) from None
    return command


class InfoGreen(gdb.Command):
    """Lists the green threads: id, name, what each does or waits for, how long, and where it was spawned.
Usage: info green [TEXT]   (TEXT: only lines that contain it)"""

    def __init__(self):
        super().__init__("info green", gdb.COMMAND_STATUS)

    @says_why
    def invoke(self, arg, from_tty):
        greens = reader().all()
        running = green_threads.on_threads(greens, stack_pointers())

        def line(green):
            thread = running.get(green.id)
            note = f" on OS thread {thread.num} ({thread.name or 'LWP %d' % thread.ptid[1]})" if thread else ""
            return green_threads.line_of(green, note)

        for text in green_threads.listing(greens, line, arg):
            gdb.write(text + "\n")


class GreenCommand(gdb.Command):
    """Walks the stack of a green thread.
Usage: green ID|NAME [bt [OPTIONS]]   green all bt [OPTIONS]   green off
Without `bt` it enters the green thread: `bt`, `up`, `frame N` and `info locals` work there until `green off`."""

    def __init__(self):
        super().__init__("green", gdb.COMMAND_STACK)

    @says_why
    def invoke(self, arg, from_tty):
        words = gdb.string_to_argv(arg)
        if not words or words[1:2] not in ([], ["bt"]):
            raise gdb.GdbError("usage: green ID|NAME [bt], green all bt, green off")
        if words[0] == "off":
            ENTERED.leave()
            return
        greens, options = reader().all(), " ".join(words[2:])
        running = green_threads.on_threads(greens, stack_pointers())
        if words[0] == "all":
            for text in green_threads.all_stacks(greens, lambda green: backtrace(green, running, options)):
                gdb.write(text + "\n")
            return
        found = green_threads.chosen(greens, words[0])
        if not found:
            raise gdb.GdbError(f"no green thread {words[0]}")
        for green in found:
            gdb.write(green_threads.line_of(green) + "\n")
            if words[1:]:
                gdb.write(backtrace(green, running, options) + "\n")
        if not words[1:]:
            self.enter(found[0], running)

    def enter(self, green, running):
        thread = running.get(green.id)
        ENTERED.leave()
        if thread:
            thread.switch()
            return
        if not green.registers:
            raise gdb.GdbError(f"no stack: {green.what()}")
        ENTERED.enter(green.registers)
        gdb.execute(f"frame {ENTERED.above}")


InfoGreen()
GreenCommand()
