// SPDX-License-Identifier: MIT OR Apache-2.0
//! lttng-analyses and `piste analyze` on the same three traces. README.md has a table of what is different and why.
//!
//! Most differences have a rule by which lttng-analyses counts and another one by which Piste does. Both are applied to the events here: what
//! each tool says must be what its rule makes of them, to the nanosecond. README.md also lists what is checked less closely.
//!
//! The traces are of the whole system, with whatever else runs there.

mod cpu;
mod devices;
mod events;
mod files;
mod interrupts;
mod lttng;
mod memory;
mod system_calls;
mod waits;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs;
use std::rc::Rc;

use piste_support::Workplace;
use piste_support::disk::Disk;
use piste_support::kernel::{self, KernelWorkplace};
use piste_support::report::{analyze, number, record_whole, rows, text};
use serde_json::Value;

use events::Event;
use lttng::Answer;

/// A recorded trace, and both who are asked about it.
struct Compared<'a> {
    place: &'a Workplace,
    trace: String,
    events: Vec<Event>,
    /// What each has been asked already, with the answer.
    asked: RefCell<BTreeMap<String, Rc<Answer>>>,
    reported: RefCell<BTreeMap<String, Rc<Value>>>,
}

impl Compared<'_> {
    /// Records everything that both analyse, while a script runs.
    fn record<'a>(place: &'a KernelWorkplace, script: &str) -> Compared<'a> {
        let path = place.path("work.sh");
        fs::write(&path, script).expect("a file can be written there");
        // Of memory, what is counted: all of the preset `mem` would be half of the trace, which is read more than ten times.
        let options = [
            "-a",
            "--preset",
            "sched,syscalls,irq,io,net",
            "-k",
            "kmem_mm_page_alloc,kmem_mm_page_free",
        ];
        let (trace, _) = record_whole(place, &options, &["sh", "-e", text(&path)]);
        // To read it takes much longer.
        place.let_others_record();
        Compared {
            events: events::read(place, &trace),
            place,
            trace,
            asked: RefCell::default(),
            reported: RefCell::default(),
        }
    }

    /// What lttng-analyses says, mended.
    fn lttng(&self, analysis: &str) -> Rc<Answer> {
        self.ask(analysis, &[])
    }

    /// The same of an analysis that shows only its first rows, unless it is asked for more.
    fn lttng_all(&self, analysis: &str) -> Rc<Answer> {
        self.ask(analysis, &["--limit", "1000000000"])
    }

    fn ask(&self, analysis: &str, options: &[&str]) -> Rc<Answer> {
        let mut asked = self.asked.borrow_mut();
        let answer = asked.entry(analysis.to_owned());
        let ask = || Rc::new(lttng::ask(self.place, &self.trace, analysis, options));
        answer.or_insert_with(ask).clone()
    }

    /// What Piste says, all rows.
    fn piste(&self, analysis: &str) -> Rc<Value> {
        let mut reported = self.reported.borrow_mut();
        let report = reported.entry(analysis.to_owned());
        let options = ["--limit", "1000000000"];
        let ask = || Rc::new(analyze(self.place, analysis, &self.trace, &options));
        report.or_insert_with(ask).clone()
    }

    /// The trace, as lttng-analyses can read it without being mended: it copies the first event, and ends at a value that has no name, as the
    /// flags of allocations may have.
    fn without_allocations(&self) -> String {
        let filter = "name != \"kmem_mm_page_alloc\"";
        let trimmed = self.place.path("without-allocations");
        let trimmed = text(&trimmed);
        self.place
            .piste_succeeds(&["trim", &self.trace, "--filter", filter, "-o", trimmed]);
        trimmed.to_owned()
    }

    /// When the first event was, and the last one.
    fn time(&self) -> (i64, i64) {
        let [first, .., last] = &self.events[..] else {
            panic!("no events")
        };
        (first.ns, last.ns)
    }

    /// From when on all that happens on all CPUs is in the trace. Until then some of them only record.
    fn complete_from_ns(&self) -> i64 {
        let stats = self.place.piste_json(&["stats", &self.trace]);
        let of_kernel = |stream: &&Value| {
            stream["file"]
                .as_str()
                .is_some_and(|file| file.contains("/kernel/kernel_"))
        };
        let begins = rows(&stats, "streams").iter().filter(of_kernel);
        let last = begins.map(|stream| number(&stream["begin_ns"])).max();
        last.expect("the kernel was recorded")
    }

    fn check(&self) {
        cpu::check(self);
        waits::check(self);
        system_calls::check(self);
        interrupts::check(self);
        files::check(self);
        devices::check(self);
        memory::check(self);
    }
}

fn workplace() -> Option<KernelWorkplace> {
    kernel::workplace().filter(|place| lttng::is_here(place))
}

/// gcc under make, and pipes: switches and many system calls of many processes.
#[test]
fn processes_and_their_system_calls() {
    let Some(place) = workplace() else { return };
    let script = "
mkdir -p source && cd source
for number in 1 2; do echo \"int f$number(int value) { return value * $number; }\" >f$number.c; done
printf 'all: f1.o f2.o\\n%%.o: %%.c\\n\\tgcc -c -o $@ $<\\n' >Makefile
rm -f *.o
make -s -j2
seq 20000 | sort | uniq | wc -l
";
    Compared::record(&place, script).check();
}

/// Files that are written, synced, read and copied, on a disk of their own.
#[test]
fn files_and_disks() {
    let Some(place) = workplace() else { return };
    let Some(disk) = Disk::new(&place, 64 << 20, 0) else {
        return;
    };
    let script = format!(
        "
cd {}
python3 -c '
import os
fd = os.open(\"file\", os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
for part in range(40):
    os.pwrite(fd, bytes(8192), part * 8192)
    if part % 8 == 0: os.fsync(fd)
while os.read(fd, 65536): pass
other = os.dup(fd)
os.write(other, bytes(100))
os.fdatasync(other)
os.close(other)
'
dd if=file of=copy bs=64k conv=fsync 2>/dev/null
dd if=copy of=/dev/null bs=64k iflag=direct 2>/dev/null
cp file another
sync another
",
        text(&disk.folder)
    );
    let compared = Compared::record(&place, &script);
    compared.check();
    devices::check_count(&compared);
}

/// What a program sends to itself over TCP and UDP, with timers in between.
#[test]
fn networks_and_interrupts() {
    let Some(place) = workplace() else { return };
    let script = "
python3 -c '
import socket, threading, time
listening = socket.socket()
listening.bind((\"127.0.0.1\", 0))
listening.listen()
def serve():
    connection, _ = listening.accept()
    while data := connection.recv(4096): connection.sendall(data[:100])
    connection.close()
server = threading.Thread(target=serve)
server.start()
client = socket.create_connection(listening.getsockname())
for turn in range(60):
    client.sendall(bytes(1000))
    client.recv(4096)
    if turn % 10 == 0: time.sleep(0.002)
client.close()
server.join()
here, there = (socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(2))
here.bind((\"127.0.0.1\", 0))
for _ in range(40):
    there.sendto(bytes(200), here.getsockname())
    here.recvfrom(1000)
'
";
    let compared = Compared::record(&place, script);
    compared.check();
    let trimmed = compared.without_allocations();
    devices::check_network(&compared, &trimmed);
    interrupts::check_names(&compared, &trimmed);
    interrupts::check_periods(&compared);
}
