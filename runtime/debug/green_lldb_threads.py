"""lldb: shows entered green threads as threads. lldb loads this file as the plugin of an operating system; green_lldb.py says which
green threads are entered."""

import struct

# The registers of the entered green threads, by the ids under which lldb knows them.
ENTERED = {}
NAMES = {}
# At which stop of the process they were read. After the next stop they are stale.
READ_AT = {}
MACHINE = "x86_64"

X86_64 = ["rax", "rdx", "rcx", "rbx", "rsi", "rdi", "rbp", "rsp", *(f"r{n}" for n in range(8, 16)), "rip"]
AARCH64 = [*(f"x{n}" for n in range(31)), "sp", "pc"]
GENERIC = {"rip": "pc", "rsp": "sp", "rbp": "fp", "pc": "pc", "sp": "sp", "x29": "fp", "x30": "ra"}


def names():
    return X86_64 if MACHINE == "x86_64" else AARCH64


def values(registers):
    """Returns the known registers by name."""
    pc, sp, fp = ("rip", "rsp", "rbp") if MACHINE == "x86_64" else ("pc", "sp", "x29")
    return {pc: registers.pc, sp: registers.sp, fp: registers.fp, **registers.others}


def enter(process, tid, registers, name):
    ENTERED[tid], NAMES[tid], READ_AT[tid] = registers, name, process.GetStopID()


def leave_stale(process):
    """Forgets the green threads that were entered before the process went on."""
    for tid in [tid for tid in ENTERED if READ_AT[tid] != process.GetStopID()]:
        del ENTERED[tid]


class OperatingSystemPlugIn:
    def __init__(self, process):
        self.process = process

    def get_thread_info(self):
        leave_stale(self.process)
        return [self.thread(tid) for tid in ENTERED]

    def create_thread(self, tid, context):
        return self.thread(tid)

    def thread(self, tid):
        return {"tid": tid, "name": NAMES.get(tid, ""), "state": "stopped", "stop_reason": "none", "queue": ""}

    def get_register_info(self):
        # The numbers of DWARF are those of the order in which the names stand.
        one = lambda n, name: {
            "name": name, "bitsize": 64, "offset": 8 * n, "encoding": "uint", "format": "hex", "set": 0, "ehframe": n, "dwarf": n,
            **({"generic": GENERIC[name]} if name in GENERIC else {}),
        }
        return {"sets": ["general"], "registers": [one(n, name) for n, name in enumerate(names())]}

    def get_register_data(self, tid):
        known = values(ENTERED[tid])
        return struct.pack(f"<{len(names())}Q", *(known.get(name, 0) for name in names()))
