// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the arguments of system calls point to is in the trace: file names, arguments of programs, addresses of sockets, and on request what is
//! read and written. strace, which reads the same memory, is the witness.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use piste_support::build_tree::repository;
use piste_support::kernel::{self, KernelSession};
use piste_support::{Recording, Workplace, process, strace, users};
use serde_json::Value;

/// An entry and its exit.
#[derive(Debug, Default)]
struct Call {
    tid: i64,
    name: String,
    entry: Value,
    exit: Value,
}

impl Call {
    /// All values of both.
    fn values(&self) -> Vec<&Value> {
        let mut values = Vec::new();
        collect(&self.entry, &mut values);
        collect(&self.exit, &mut values);
        values
    }

    fn texts(&self) -> Vec<&str> {
        self.values().into_iter().filter_map(Value::as_str).collect()
    }

    fn text(&self, field: &str) -> &str {
        let value = &self.entry[field];
        value.as_str().unwrap_or_else(|| panic!("no text {field}: {self:?}"))
    }
}

fn collect<'v>(value: &'v Value, values: &mut Vec<&'v Value>) {
    values.push(value);
    match value {
        Value::Array(all) => all.iter().for_each(|inner| collect(inner, values)),
        Value::Object(fields) => fields.values().for_each(|inner| collect(inner, values)),
        _ => {}
    }
}

/// The calls of a trace, in the order in which they began.
fn calls(place: &Workplace, trace: &Path) -> Vec<Call> {
    let shown = place.piste_succeeds(&["view", trace.to_str().expect("UTF-8"), "--json", "--event", "syscall_*"]);
    let mut calls: Vec<Call> = Vec::new();
    // The last one of each thread.
    let mut last = BTreeMap::new();
    for line in shown.lines() {
        let mut event: Value = line.parse().expect("JSON");
        let tid = event["event_context"]["tid"].as_i64().expect("a thread");
        let payload = event["payload"].take();
        let name = event["name"].as_str().expect("a name");
        if let Some(name) = name.strip_prefix("syscall_entry_") {
            last.insert(tid, calls.len());
            calls.push(Call {
                tid,
                name: name.to_owned(),
                entry: payload,
                exit: Value::Null,
            });
        } else if let Some(&index) = last.get(&tid)
            && name.strip_prefix("syscall_exit_") == Some(&calls[index].name)
        {
            calls[index].exit = payload;
        }
    }
    calls
}

fn recorded(place: &Workplace, recording: &Recording) -> Vec<Call> {
    calls(place, recording.trace().path())
}

/// The kernel's names of calls, by those that programs know.
fn kernel_names() -> BTreeMap<String, String> {
    let table = fs::read_to_string(repository().join("crates/syscalls/data/x86_64.tsv")).expect("the table");
    let lines = table.lines().filter(|line| !line.starts_with('#'));
    let pair = |line: &str| {
        let columns: Vec<&str> = line.split('\t').collect();
        (columns[2].to_owned(), columns[1].to_owned())
    };
    lines.map(pair).collect()
}

/// Programs of every kind, as scripts.
const PROGRAMS: [(&str, &str); 21] = [
    (
        "gcc",
        "echo 'int main(void) { return 0; }' >a.c && gcc -O2 -o a.out a.c && ./a.out",
    ),
    (
        "make",
        "printf 'all: one two\\none two:\\n\\techo $@ >$@\\n' >Makefile && make -s -j2",
    ),
    (
        "git",
        "git init -q r && cd r && echo one >f && git add f && git -c user.name=a -c user.email=a@b commit -qm one && git log --stat",
    ),
    (
        "tar",
        "mkdir -p t/u && echo x >t/u/x && ln -s u/x t/link && tar -czf t.tgz t && tar -xzf t.tgz -C /tmp --to-stdout",
    ),
    (
        "python3",
        "python3 -c 'import json, os, subprocess; subprocess.run([\"true\", \"ü\"]); print(os.listdir(\".\"))'",
    ),
    (
        "redis-server",
        "ln -s $(command -v redis-check-rdb) redis-server && (./redis-server --port 0 --unixsocket $PWD/redis.sock --save '' &) && \
         while ! redis-cli -s $PWD/redis.sock ping; do sleep 0.05; done && redis-cli -s $PWD/redis.sock set key value && \
         redis-cli -s $PWD/redis.sock shutdown nosave",
    ),
    (
        "sqlite3",
        "sqlite3 a.db 'create table t(x); insert into t values (1), (2); select sum(x) from t'",
    ),
    (
        "sh",
        "for i in 1 2 3; do echo $i | sed s/1/one/ | sort >out.$i; done; cat out.*; trap 'echo over' EXIT; (cd / && pwd)",
    ),
    (
        "curl",
        "python3 -u -m http.server 0 --bind 127.0.0.1 >port 2>&1 & server=$!; \
         while ! grep -q port port; do sleep 0.05; done; curl -sS http://127.0.0.1:$(sed 's/.*port \\([0-9]*\\).*/\\1/' port)/; kill $server",
    ),
    (
        "nginx",
        "printf 'daemon off; master_process off; pid pid; error_log stderr; events {} http { access_log log; client_body_temp_path b; \
         proxy_temp_path p; fastcgi_temp_path f; uwsgi_temp_path u; scgi_temp_path s; server { listen unix:sock; root www; } }' >conf && \
         mkdir www && echo served >www/file && PATH=$PATH:$UNPACKED/usr/sbin && command -v nginx && (nginx -p $PWD -c conf &) && while ! [ -e pid ]; do sleep 0.05; done && \
         curl -sS --unix-socket sock http://x/file && kill $(cat pid)",
    ),
    ("apt-get", "apt-get -s install bash"),
    (
        "perl",
        "perl -e 'use Socket; socketpair(A, B, AF_UNIX, SOCK_STREAM, 0); open F, \">f\"; print F \"x\"; rename \"f\", \"g\"; stat \"g\"'",
    ),
    ("find", "find /etc/apt /usr/share/doc/make -newer /etc/hostname -type f"),
    (
        "awk",
        "awk '{ print $1 > \"f.\" NR }' /etc/passwd; diff f.1 f.2; cmp f.1 f.1",
    ),
    ("dpkg", "dpkg -S /bin/ls; dpkg -s bash"),
    ("openssl", "openssl rand -hex 8 >k && openssl dgst -sha256 k"),
    (
        "patch",
        "printf 'a\\nb\\n' >x; sed s/b/c/ x >y; diff -u x y >p; patch -s x p",
    ),
    (
        "coreutils",
        "mkdir -p a/b/c; touch a/f; ln a/f a/g; ln -s g a/h; cp -r a z; mv z y; readlink a/h; chmod 600 a/f; truncate -s 5 a/f; rm -r a y",
    ),
    ("sockets", "python3 sockets.py"),
    (
        "binutils",
        "objdump -d /bin/true >/dev/null; readelf -d /bin/ls; strip -o s /bin/true",
    ),
    (
        "unshare",
        "unshare -m sh -c 'mkdir m && mount -t tmpfs -o size=1M none m && touch m/f && umount m'",
    ),
];

/// Sockets of several families, several messages, and a descriptor that is passed on.
const SOCKETS: &str = r#"
import array, os, select, socket
server = socket.socket(socket.AF_INET6); server.bind(("::1", 0)); server.listen()
client = socket.create_connection(server.getsockname()[:2])
peer, _ = server.accept(); peer.sendall(b"hello"); client.recv(5); client.getpeername()
name = "\0piste-test-%d" % os.getpid()
a, b = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
a.bind(name); b.bind("here.sock"); b.sendto(b"one", name); print(a.recvfrom(10)); a.sendmsg([b"two", b"three"], [], 0, "here.sock")
print(b.recvmsg(100)); u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); u.bind(("127.0.0.1", 0)); u.sendto(b"x", u.getsockname())
select.select([u], [], [], 1); print(u.recvfrom(10)); c, d = socket.socketpair(); socket.send_fds(c, [b"fd"], [0]); socket.recv_fds(d, 10, 1)
"#;

#[test]
fn every_string_and_address_that_strace_sees_is_in_the_trace() {
    let Some(place) = kernel::workplace() else { return };
    let kernel_names = kernel_names();
    let mut watched = Vec::new();
    let unpacked = repository().join("target/unpacked");
    for (name, script) in PROGRAMS {
        if name == "nginx" && !unpacked.join("usr/sbin/nginx").exists() {
            println!("skipped: nginx, which tools/install-packages could not download");
            continue;
        }
        let folder = place.path(&format!("work-{name}"));
        fs::create_dir(&folder).expect("a folder can be made there");
        fs::write(folder.join("sockets.py"), SOCKETS).expect("it can be written");
        let log = place.path(&format!("{name}.log"));
        let strace = ["-f", "-s", "4096", "-xx", "-e", "trace=file,network,process", "-o"];
        let options = [
            "--no-user",
            "--syscall",
            "*",
            "--strings",
            "4096",
            "--kernel-subbuf-count",
            "256",
        ];
        let script = format!(
            "UNPACKED={}; cd {} || exit\n{script}",
            unpacked.display(),
            folder.display()
        );
        let strace = [&strace[..], &[log.to_str().expect("UTF-8"), "sh", "-c", &script]].concat();
        let recording = place.record_with_kernel(&options, "strace", &strace);
        assert_eq!(recording.discarded(), 0, "{name}: {:#}", recording.summary());
        watched.push((name, log, recording));
    }
    place.let_others_record();
    let mut differences = Vec::new();
    let mut compared = 0;
    for (name, log, recording) in &watched {
        let seen = strace::calls(&fs::read_to_string(log).expect("strace writes its log"));
        assert!(seen.len() > 20, "{name}: strace says little: {}", recording.finished);
        compared += seen.len();
        compare(
            name,
            &seen,
            &recorded(&place, recording),
            &kernel_names,
            &mut differences,
        );
    }
    println!("{compared} calls compared");
    assert!(
        differences.is_empty(),
        "{} differences: {:#?}",
        differences.len(),
        differences
    );
}

/// Adds what is not the same.
fn compare(
    program: &str,
    seen: &[strace::Call],
    recorded: &[Call],
    kernel_names: &BTreeMap<String, String>,
    differences: &mut Vec<String>,
) {
    let first = seen.first().expect("strace sees the program being executed").tid;
    // Before that, it is strace itself.
    let begin = recorded
        .iter()
        .position(|call| call.tid == i64::from(first) && call.name == "execve");
    let begin = begin.expect("the program is executed");
    let mut by_thread: BTreeMap<(i64, &str), Vec<&Call>> = BTreeMap::new();
    for (index, call) in recorded.iter().enumerate() {
        if index >= begin || call.tid != i64::from(first) {
            by_thread.entry((call.tid, &call.name)).or_default().push(call);
        }
    }
    let mut of_thread: BTreeMap<(i64, &str), Vec<&strace::Call>> = BTreeMap::new();
    for call in seen {
        let name = kernel_names.get(&call.name).unwrap_or(&call.name);
        of_thread.entry((call.tid.into(), name)).or_default().push(call);
    }
    for ((tid, name), seen) in of_thread {
        let recorded = by_thread.remove(&(tid, name)).unwrap_or_default();
        if seen.len() != recorded.len() {
            differences.push(format!(
                "{program}: {name} of {tid}: {} for strace, {} recorded",
                seen.len(),
                recorded.len()
            ));
        }
        for (seen, recorded) in seen.into_iter().zip(recorded) {
            let missing = missing(seen, recorded);
            if !missing.is_empty() {
                differences.push(format!(
                    "{program}: {name}({} lacks {missing:?}: {recorded:?}",
                    seen.text
                ));
            }
        }
    }
}

/// What strace saw of a call that is not recorded.
fn missing(seen: &strace::Call, recorded: &Call) -> Vec<String> {
    let texts = recorded.texts();
    let has_text = |bytes: &[u8]| {
        let text = String::from_utf8_lossy(bytes);
        // Abstract names of sockets, and parts of buffers.
        texts.iter().any(|recorded| {
            **recorded == text || recorded.strip_prefix('@') == Some(&text) || recorded.contains(&*text)
        })
    };
    let has_numbers = |numbers: &[u64]| {
        let list = numbers.iter().map(|number| Value::from(*number)).collect();
        recorded.values().contains(&&Value::Array(list))
    };
    let has_port = |port: u16| {
        let sides = [&recorded.entry, &recorded.exit];
        sides.iter().any(|side| side["dport"] == port || side["sport"] == port)
    };
    let strings = seen.strings().into_iter().filter(|bytes| !has_text(bytes));
    let addresses = seen
        .addresses()
        .into_iter()
        .map(|address| address.map(u64::from).to_vec());
    let long = seen
        .long_addresses()
        .into_iter()
        .map(|address| address.map(u64::from).to_vec());
    let addresses = addresses.chain(long).filter(|numbers| !has_numbers(numbers));
    let ports = seen.ports().into_iter().filter(|port| !has_port(*port));
    let strings = strings.map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    strings
        .chain(addresses.map(|address| format!("{address:?}")))
        .chain(ports.map(|port| port.to_string()))
        .collect()
}

#[test]
fn what_is_hard_to_read_is_told_or_comes_at_the_exit() {
    let Some(place) = kernel::workplace() else { return };
    let program = place.program("untouched.c");
    let file = place.path("pages");
    let options = ["--no-user", "--syscall", "access"];
    let recording = place.record_with_kernel(&options, program, &[file.to_str().expect("UTF-8")]);
    recording.expect_whole();
    let calls = recorded(&place, &recording);
    // The loader asks, too.
    let own: Vec<_> = calls
        .iter()
        .skip_while(|call| call.exit["filename"].is_null())
        .collect();
    let shown: Vec<_> = own
        .iter()
        .map(|call| (call.text("filename"), call.text("incomplete"), &call.exit["ret"]))
        .collect();
    let page = "x".repeat(4096);
    assert_eq!(shown.len(), 6, "{calls:#?}");
    assert_eq!(own[0].exit["filename"], "/none/late");
    assert_eq!(own[0].exit["incomplete"], "");
    assert_eq!(shown[0], ("", "filename unreadable", &Value::from(-2)));
    assert_eq!(shown[1], ("", "filename null", &Value::from(-14)));
    assert_eq!(shown[2], ("", "filename unreadable", &Value::from(-14)));
    assert_eq!(own[2].exit["incomplete"], "filename unreadable");
    assert_eq!(shown[3], ("/none/edge", "", &Value::from(-2)));
    assert!(
        shown[4].1 == "filename unreadable" || page.starts_with(shown[4].0),
        "{:?}",
        shown[4]
    );
    assert_eq!((shown[5].0.len(), shown[5].1), (4095, "filename cut"));
}

#[test]
fn environments_and_buffers_are_recorded_on_request() {
    let Some(place) = kernel::workplace() else { return };
    let run = |options: &[&str]| {
        let options = [&["--no-user", "--syscall", "execve,write"], options].concat();
        let recording = place.record_with_kernel(&options, "/bin/sh", &["-c", "SECRET=1 /bin/echo hello"]);
        recording.expect_whole();
        let calls = recorded(&place, &recording);
        let last = |name: &str| {
            let found = calls.iter().rfind(|call| call.name == name);
            found.unwrap_or_else(|| panic!("no {name}: {calls:#?}")).entry.clone()
        };
        (last("execve"), last("write"))
    };
    let (execve, write) = run(&[]);
    assert_eq!(execve["argv"], serde_json::json!(["/bin/echo", "hello"]));
    assert!(!execve["envp"].is_array(), "{execve}");
    assert_eq!(write["buf_bytes"], Value::Null);
    let (execve, write) = run(&["--environment", "--strings", "4"]);
    assert!(
        execve["envp"]
            .as_array()
            .is_some_and(|envp| envp.contains(&"SECRET=1".into())),
        "{execve}"
    );
    assert_eq!(
        (&write["buf_bytes"], &write["incomplete"]),
        (&"hell".into(), &"buf cut".into())
    );
    let (execve, write) = run(&["--no-strings"]);
    assert!(!execve["argv"].is_array() && !execve["filename"].is_array(), "{execve}");
    assert_eq!(write["buf_bytes"], Value::Null);
}

/// Each of two threads moves from CPU to CPU, and nothing belongs to another call.
#[test]
fn no_field_belongs_to_another_call() {
    const CALLS: u64 = 1_000_000;
    let Some(place) = kernel::workplace() else { return };
    let program = place.program("named_calls.c");
    let session = KernelSession::create(&place, &["--num-subbuf", "256"]);
    let mut running = place.start(program, &[&CALLS.to_string()]);
    assert_eq!(running.line(), "ready");
    session
        .enable(&["--syscall", "access"])
        .track(&["--pid", &running.pid().to_string(), "--follow"])
        .start();
    let duration_us: f64 = running.ask("begin").parse().expect("a number");
    let (channel, trace) = session.end();
    running.say("end");
    running.finish();
    place.let_others_record();
    let count = |key: &str| channel[key].as_u64().unwrap_or_else(|| panic!("{key}: {channel:#}"));
    let (events, discarded) = (count("events"), count("discarded_events"));
    println!(
        "{:.0} calls/s, {events} events, {discarded} lost",
        2.0 * CALLS as f64 / duration_us * 1e6
    );
    assert_eq!(events + discarded, 2 * 2 * CALLS, "{channel:#}");
    let columns = "$tid,filename,mode,ret,incomplete";
    let trace = trace.path().to_str().expect("UTF-8");
    let table = place.piste_succeeds(&[
        "view",
        trace,
        "--format",
        "csv",
        "--fields",
        columns,
        "--event",
        "syscall_*",
    ]);
    let mut next: BTreeMap<&str, u64> = BTreeMap::new();
    let mut read = 0;
    for line in table.lines().skip(1) {
        read += 1;
        let cells: Vec<&str> = line.split(',').collect();
        let [_, name, tid, path, mode, result, incomplete] = cells[..] else {
            panic!("{line}");
        };
        if name.contains("exit") {
            assert_eq!(result, "-2", "{line}");
            continue;
        }
        let number: u64 = path.rsplit('/').next().and_then(|text| text.parse().ok()).expect(line);
        assert_eq!((mode, incomplete), (&*(number % 8).to_string(), ""), "{line}");
        let next = next.entry(tid).or_default();
        assert!(
            number >= *next && (discarded > 0 || number == *next),
            "{line}: not {next}"
        );
        *next = number + 1;
    }
    assert_eq!((read, next.len()), (events, 2));
}

#[test]
fn a_hostile_program_confuses_nothing() {
    const CALLS: u64 = 50_000;
    let Some(place) = kernel::workplace() else { return };
    let program = place.program("changing_paths.c");
    let options = ["--no-user", "--syscall", "access", "--kernel-subbuf-count", "512"];
    let recording = place.record_with_kernel(&options, program, &[&CALLS.to_string()]);
    recording.expect_whole();
    let is_slow = recording.finished.stdout.trim() == "slow";
    let calls = recorded(&place, &recording);
    let is_own = |call: &&Call| !call.text("filename").starts_with("/etc");
    let own: Vec<&Call> = calls.iter().filter(is_own).collect();
    assert_eq!(own.len() as u64, CALLS + u64::from(is_slow));
    let mut read = 0;
    for call in &own {
        let late = call.exit["filename"].as_str().unwrap_or("");
        for path in [call.text("filename"), late] {
            assert!(path.bytes().all(|byte| b"/ab".contains(&byte)), "{call:?}");
            read += u64::from(!path.is_empty());
        }
        let told = ["", "filename unreadable", "filename cut"];
        assert!(told.contains(&call.text("incomplete")), "{call:?}");
    }
    println!("{read} of {CALLS} paths read");
    assert!(read > 0);
    if is_slow {
        let slow = own.last().expect("it asks");
        assert_eq!(slow.text("incomplete"), "filename unreadable");
        assert_eq!(slow.exit["filename"], "/abab", "{slow:?}");
    }
}

/// Other users' memory is theirs.
#[test]
fn members_see_only_what_their_own_programs_point_to() {
    const MEMBER: u32 = 65534;
    let Some(place) = kernel::workplace() else { return };
    if !users::enter(&place) {
        return;
    }
    let program = place.program("paths.c");
    place.start_pisted();
    users::let_everybody_ask(&place);
    let home = place.path("home");
    fs::create_dir(&home).expect("a folder can be made there");
    std::os::unix::fs::chown(&home, Some(MEMBER), Some(MEMBER)).expect("it is ours");
    let output = home.join("trace");
    let output = output.to_str().expect("UTF-8");
    let piste = place.path("bin/piste");
    let member = |program: &Path, arguments: &[&str]| {
        let mut command: Command = users::command(&place, MEMBER, "--clear-groups", program, arguments);
        process::run(&mut command).expect_success();
    };
    member(&piste, &["create", "names", "-o", output]);
    member(
        &piste,
        &["enable-channel", "-k", "kernel", "--strings", "16", "--environment"],
    );
    member(
        &piste,
        &["enable-event", "-k", "-c", "kernel", "--syscall", "access,execve"],
    );
    member(&piste, &["start"]);
    // A process that has just given up its rights is not for members to see; what it executes is.
    let script = format!("{} /member/path", program.display());
    member(Path::new("/bin/sh"), &["-c", &script]);
    place.run(&program, &["/root/path"]).expect_success();
    member(&piste, &["destroy"]);
    let calls = calls(&place, Path::new(output));
    let own: Vec<_> = calls
        .iter()
        .filter(|call| call.texts().contains(&"/member/path"))
        .collect();
    // Once as an argument of the program, and once as what it asks for.
    assert_eq!(own.len(), 2, "{calls:#?}");
    let has_secret = |call: &&Call| call.texts().iter().any(|text| text.contains("/root/path"));
    assert!(!calls.iter().any(|call| has_secret(&call)), "{calls:#?}");
    let hidden = calls
        .iter()
        .filter(|call| call.text("incomplete").contains("filename unreadable"));
    assert!(hidden.count() >= 2, "{calls:#?}");
}

/// The calls that a filter selects of a program's: the field of each entry, and whether its exit is there.
fn selected(
    place: &Workplace,
    call: &str,
    filter: &str,
    program: &Path,
    arguments: &[&str],
    field: &str,
) -> Vec<String> {
    let options = ["--no-user", "--syscall", call, "--filter", filter];
    let recording = place.record_with_kernel(&options, program, arguments);
    recording.expect_whole();
    let calls = recorded(place, &recording);
    let shown = |call: &Call| {
        let value = &call.entry[field];
        let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        if call.exit.is_null() {
            format!("{value} alone")
        } else {
            value
        }
    };
    calls.iter().map(shown).collect()
}

#[test]
fn filters_select_calls_by_what_their_arguments_point_to() {
    let Some(place) = kernel::shared_workplace() else {
        return;
    };
    let program = place.program("paths.c");
    let paths = ["/none/a1", "/none/b2", "/none/a3/", "/usr"];
    for (filter, expected) in [
        ("filename =~ \"/none/a*\"", &["/none/a1", "/none/a3/"][..]),
        ("filename == \"/usr\" || filename =~ \"*b?\"", &["/none/b2", "/usr"]),
        ("filename !~ \"/none/*\" && filename == \"/usr\"", &["/usr"]),
        (
            "filename =~ \"/none/*\" && mode == 0 && $comm == \"paths\"",
            &paths[..3],
        ),
        ("filename =~ \"/none/?*/\" && $comm == \"other\"", &[]),
        ("filename == \"/usr\" && ret == 0", &["/usr"]),
        // When it began, it might have failed.
        ("filename =~ \"/us*\" && ret < 0", &["/usr alone"]),
        ("filename =~ \"*/a1*\" && ret < 0", &["/none/a1"]),
    ] {
        let found = selected(&place, "access", filter, &program, &paths, "filename");
        assert_eq!(found, expected, "{filter}");
    }
    let script = "import socket
for port in (9, 10): socket.socket().connect_ex(('127.0.0.1', port))
for name in ('/none.sock', '\\0none'): socket.socket(socket.AF_UNIX).connect_ex(name)";
    let python = Path::new("/usr/bin/python3");
    for (filter, field, expected) in [
        ("dport == 9", "dport", &["9"][..]),
        ("family == 2", "dport", &["9", "10"]),
        ("sun_path =~ \"/none*\"", "sun_path", &["/none.sock"]),
        ("sun_path == \"@none\" || dport > 9", "sun_path", &["", "@none"]),
    ] {
        let found = selected(&place, "connect", filter, python, &["-c", script], field);
        assert_eq!(found, expected, "{filter}");
    }
}

#[test]
fn a_filter_that_no_call_can_satisfy_is_refused() {
    let Some(place) = kernel::workplace() else { return };
    for (call, filter, reason) in [
        (
            "openat",
            "filname == \"a\"",
            "has a field `filname` (did you mean filename?)",
        ),
        ("open*", "argv == \"a\"", "has a field `argv`"),
        ("execve", "argv == \"a\"", "`argv` cannot be compared while recording"),
        ("read", "filename == \"a\" && count > 1", "has a field `filename`"),
        ("read", "1 == 2", "no system call can satisfy it"),
    ] {
        let refused = place.piste(&[
            "record",
            "--no-user",
            "--syscall",
            call,
            "--filter",
            filter,
            "--",
            "true",
        ]);
        assert!(
            !refused.success() && refused.stderr.contains(reason),
            "{call} {filter}: {refused}"
        );
    }
    // tracefs records these, and has no strings.
    place.piste_succeeds(&["create", "stacks"]);
    place.piste_succeeds(&[
        "enable-event",
        "-k",
        "--syscall",
        "openat",
        "--filter",
        "filename == \"a\"",
    ]);
    let refused = place.piste(&["enable-event", "-k", "--syscall", "read", "--callstack", "user"]);
    assert!(
        !refused.success()
            && refused
                .stderr
                .contains("`filename` is in memory that an argument points to"),
        "{refused}"
    );
}
