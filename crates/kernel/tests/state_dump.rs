// SPDX-License-Identifier: MIT OR Apache-2.0
//! The state dump of this machine tells what can be seen from here.

use std::fs::File;
use std::process::{Command, Stdio};
use std::sync::mpsc;

use piste_kernel::state_dump::{Event, Status, collect, dump};

fn collected() -> Vec<Event> {
    let mut events = vec![];
    collect(&mut |event| events.push(event.clone()));
    events
}

#[test]
fn this_process_is_in_it_with_its_threads_and_files() {
    let (stop, stopped) = mpsc::channel::<()>();
    let thread = std::thread::Builder::new()
        .name("waits".into())
        .spawn(move || stopped.recv())
        .unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("open while it is dumped");
    let file = File::create(&path).unwrap();
    let own_pid = std::process::id() as i32;

    // The thread names itself once it runs, and waits once it comes to that.
    let is_waiting = |event: &Event| {
        matches!(event, Event::Thread(thread)
            if thread.pid == own_pid && thread.name == "waits" && thread.status == Status::Wait)
    };
    let events = loop {
        let events = collected();
        if events.iter().any(is_waiting) {
            break events;
        }
    };
    drop(file);
    drop(stop);
    let _ = thread.join();

    assert_eq!(
        (events.first(), events.last()),
        (Some(&Event::Start), Some(&Event::End))
    );
    let main = events.iter().find_map(|event| match event {
        Event::Thread(thread) if thread.tid == own_pid => Some(thread),
        _ => None,
    });
    let main = main.expect("the first thread of this process");
    assert_eq!(main.parent_pid, std::os::unix::process::parent_id() as i32);
    assert_eq!((main.is_kernel, main.pid), (false, own_pid));
    assert_eq!(main.uid, rustix::process::geteuid().as_raw());
    assert!(main.namespace != 0);
    let is_file = |event: &Event| {
        matches!(event, Event::File(file)
            if file.pid == own_pid && file.name == path.to_str().unwrap() && file.mode == 2)
    };
    assert!(events.iter().any(is_file));
    let executable = std::env::args().next().unwrap();
    let is_process = |event: &Event| matches!(event, Event::Process(process) if process.pid == own_pid && process.command_line.starts_with(&executable));
    assert!(events.iter().any(is_process));
}

#[test]
fn processes_that_come_and_go_leave_it_whole() {
    let mut churn = Command::new("sh")
        .args(["-c", "while :; do /bin/true & /bin/true; done"])
        .stdin(Stdio::null())
        .spawn()
        .unwrap();
    for _ in 0..5 {
        let mut packets = vec![];
        let ticks = std::cell::Cell::new(0);
        let now_ticks = || {
            ticks.set(ticks.get() + 1);
            ticks.get()
        };
        dump(84, 4096, &now_ticks, &mut |packet| {
            packets.push(packet);
            true
        });
        let events: u64 = packets.iter().map(|packet| packet.events).sum();
        assert_eq!(events, ticks.get());
        assert!(events > 10, "{events} events");
        assert!(packets.windows(2).all(|pair| pair[0].end_ticks < pair[1].begin_ticks));
    }
    churn.kill().unwrap();
    churn.wait().unwrap();
}

#[test]
fn whoever_wants_no_more_gets_no_more() {
    let mut count = 0;
    dump(0, 64, &|| 1, &mut |_| {
        count += 1;
        count < 3
    });
    assert_eq!(count, 3);
}
