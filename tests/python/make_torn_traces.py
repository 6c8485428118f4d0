# SPDX-License-Identifier: MIT OR Apache-2.0
"""Makes traces of a kernel, as CTF 1.8, in which much is missing: switches are not told, above all those away from idle threads, and events name
threads that should be elsewhere. Arguments: a folder, how many events to make for each trace, and numbers from which all chance comes. Each number
becomes a trace in the folder that has it as its name."""

import pathlib
import random
import struct
import sys

BEGIN_NS = 1_000_000_000
UUID = bytes(range(16))
SWITCH, WAKING, WAKEUP, INTERRUPT_BEGIN, INTERRUPT_END, CALL_BEGIN, CALL_END, EXIT = range(8)
METADATA = """/* CTF 1.8 */
typealias integer { size = 8; align = 8; signed = false; } := uint8_t;
typealias integer { size = 8; align = 8; signed = true; encoding = ASCII; } := char_t;
typealias integer { size = 16; align = 8; signed = false; } := uint16_t;
typealias integer { size = 32; align = 8; signed = true; } := int32_t;
typealias integer { size = 32; align = 8; signed = false; } := uint32_t;
typealias integer { size = 64; align = 8; signed = true; } := int64_t;
typealias integer { size = 64; align = 8; signed = false; } := uint64_t;
typealias integer { size = 64; align = 8; signed = false; map = clock.monotonic.value; } := ticks_t;
trace {
	major = 1; minor = 8; byte_order = le; uuid = "00010203-0405-0607-0809-0a0b0c0d0e0f";
	packet.header := struct { uint32_t magic; uint8_t uuid[16]; uint32_t stream_id; uint64_t stream_instance_id; };
};
env { domain = "kernel"; tracer_name = "lttng-modules"; hostname = "made"; sysname = "Linux"; kernel_release = "6.18.0"; piste_version = "0.1.0"; };
clock { name = "monotonic"; freq = 1000000000; offset = 0; };
stream {
	id = 0;
	packet.context := struct {
		ticks_t timestamp_begin; ticks_t timestamp_end; uint64_t content_size; uint64_t packet_size; uint64_t packet_seq_num; uint64_t events_discarded; uint32_t cpu_id;
	};
	event.header := struct { uint16_t id; ticks_t timestamp; };
	event.context := struct { int32_t tid; };
};
"""
FIELDS = {
    "sched_switch": "char_t prev_comm[16]; int32_t prev_tid; int32_t prev_prio; int64_t prev_state; char_t next_comm[16]; int32_t next_tid; int32_t next_prio;",
    "sched_waking": "char_t comm[16]; int32_t tid; int32_t prio; int32_t target_cpu;",
    "sched_wakeup": "char_t comm[16]; int32_t tid; int32_t prio; int32_t target_cpu;",
    "irq_softirq_entry": "int32_t vec;",
    "irq_softirq_exit": "int32_t vec;",
    "syscall_entry_getppid": "",
    "syscall_exit_getppid": "int64_t ret;",
    "sched_process_exit": "char_t comm[16]; int32_t tid; int32_t prio;",
}


def metadata() -> str:
    classes = (f'event {{ name = "{name}"; id = {number}; stream_id = 0; fields := struct {{ {fields} }}; }};\n' for number, (name, fields) in enumerate(FIELDS.items()))
    return METADATA + "".join(classes)


def comm(thread: int) -> bytes:
    return (f"thread{thread}" if thread else "swapper").encode().ljust(16, b"\0")


class Machine:
    """What happens, and the part of it that is told."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.threads = [0, *range(100, 100 + self.chance.choice([2, 3, 6]))]
        self.current = [self.chance.choice(self.threads) for _ in range(self.chance.choice([1, 2, 3]))]
        self.left: list[int | None] = [None for _ in self.current]
        self.tells_idle_ends = [self.chance.random() < 0.5 for _ in self.current]
        self.untold = self.chance.choice([0, 0.05, 0.3])
        self.late = self.chance.choice([0, 0.2])
        self.strange = self.chance.choice([0, 0.02, 0.1])
        self.streams = [bytearray() for _ in self.current]
        self.now_ns = BEGIN_NS

    def step(self) -> None:
        self.now_ns += self.chance.choice([0, 1, 1, 1000, 66044])
        cpu = self.chance.randrange(len(self.current))
        kind = self.chance.choices(range(8), [35, 8, 7, 10, 10, 12, 12, 6])[0]
        if kind == SWITCH:
            self.switch(cpu)
            return
        thread = self.current[cpu]
        left = self.left[cpu]
        if left is not None and self.chance.random() < self.late:
            thread = left
        if self.chance.random() < self.strange:
            thread = self.chance.choice(self.threads)
        if kind in (WAKING, WAKEUP):
            woken = self.chance.choice(self.threads[1:])
            self.tell(cpu, kind, thread, comm(woken) + struct.pack("<iii", woken, 20, self.chance.randrange(len(self.current))))
        elif kind in (INTERRUPT_BEGIN, INTERRUPT_END):
            self.tell(cpu, kind, thread, struct.pack("<i", self.chance.choice([1, 3])))
        elif thread == 0:
            return
        elif kind == CALL_BEGIN:
            self.tell(cpu, kind, thread, b"")
        elif kind == CALL_END:
            self.tell(cpu, kind, thread, struct.pack("<q", 1))
        elif self.strange:
            self.tell(cpu, kind, thread, comm(thread) + struct.pack("<ii", thread, 20))

    def switch(self, cpu: int) -> None:
        before = self.current[cpu]
        after = self.chance.choice([thread for thread in self.threads if thread not in self.current or thread == 0])
        self.current[cpu], self.left[cpu] = after, None
        is_told = self.chance.random() >= self.untold and (before != 0 or self.tells_idle_ends[cpu])
        if before == after or not is_told:
            return
        state = self.chance.choice([0, 1, 2, 16]) if before else 0
        left = comm(before) + struct.pack("<iiq", before, 20, state)
        self.tell(cpu, SWITCH, before, left + comm(after) + struct.pack("<ii", after, 20))
        self.left[cpu] = before

    def tell(self, cpu: int, kind: int, thread: int, payload: bytes) -> None:
        self.streams[cpu] += struct.pack("<HQi", kind, self.now_ns, thread) + payload

    def write(self, folder: pathlib.Path) -> None:
        folder.mkdir()
        (folder / "metadata").write_text(metadata())
        for cpu, events in enumerate(self.streams):
            header = struct.pack("<I", 0xC1FC1FC1) + UUID + struct.pack("<IQ", 0, cpu)
            bits = 8 * (len(header) + struct.calcsize("<QQQQQQI") + len(events))
            context = struct.pack("<QQQQQQI", BEGIN_NS, self.now_ns, bits, bits, 0, 0, cpu)
            (folder / f"cpu_{cpu}").write_bytes(header + context + events)


def main() -> None:
    folder, events, *seeds = sys.argv[1:]
    for seed in seeds:
        machine = Machine(int(seed))
        for _ in range(int(events)):
            machine.step()
        machine.write(pathlib.Path(folder) / seed)


if __name__ == "__main__":
    main()
