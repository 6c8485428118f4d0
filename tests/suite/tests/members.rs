// SPDX-License-Identifier: MIT OR Apache-2.0
//! What people who are not root ask of root's pisted: its files are made as they would make them themselves. Only root can become another
//! user.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use piste_support::disk::Disk;
use piste_support::process::Finished;
use piste_support::{Trace, Workplace, kernel, process, users};
use serde_json::json;

const NOBODY: u32 = 65534;
const GROUP: u32 = 65533;

/// Root's pisted, which lets everybody ask, as if all were in the group.
struct Open<'a> {
    place: &'a Workplace,
    piste: PathBuf,
}

/// `None`, once said why, where nobody can be anybody else.
fn open(place: &Workplace) -> Option<Open<'_>> {
    if !users::enter(place) {
        return None;
    }
    place.start_pisted();
    users::let_everybody_ask(place);
    Some(Open {
        place,
        piste: place.path("bin/piste"),
    })
}

impl Open<'_> {
    /// A folder of the member's own.
    fn home(&self) -> PathBuf {
        let home = self.place.path("home");
        fs::create_dir(&home).expect("a folder can be made there");
        chown(&home, Some(NOBODY), Some(NOBODY)).expect("it is ours");
        home
    }

    fn member(&self, program: impl AsRef<Path>, arguments: &[&str]) -> Finished {
        self.member_with("--clear-groups", program, arguments)
    }

    fn member_with(&self, groups: &str, program: impl AsRef<Path>, arguments: &[&str]) -> Finished {
        let program = program.as_ref();
        process::run(&mut users::command(self.place, NOBODY, groups, program, arguments))
    }

    fn piste(&self, arguments: &[&str]) -> Finished {
        self.member(&self.piste, arguments)
    }

    /// What pisted says of the functions of a binary, to a member who does not ask by the command, which looks itself first.
    fn symbols(&self, binary: &str) -> String {
        let parameters = json!({"binary": binary, "kind": "symbol"});
        let call = json!({"method": "dev.piste.Control.ListProbePlaces", "parameters": parameters});
        let ask = "import socket, sys
control = socket.socket(socket.AF_UNIX)
control.connect(sys.argv[1])
control.sendall(sys.argv[2].encode() + b'\\0')
answer = b''
while not answer.endswith(b'\\0'):
    answer += control.recv(65536)
print(answer[:-1].decode())";
        let control = self.place.run_folder().join("control.sock");
        let asked = self.member("/usr/bin/python3", &["-c", ask, text(&control), &call.to_string()]);
        asked.expect_success().stdout.clone()
    }
}

fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

/// Every file and folder there, but for links.
fn all(folder: &Path) -> Vec<PathBuf> {
    let mut all = vec![folder.to_owned()];
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    for entry in entries {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            all.extend(self::all(&entry.path()));
        } else {
            all.push(entry.path());
        }
    }
    all
}

fn expect_owner(folder: &Path) {
    for path in all(folder) {
        let owner = fs::symlink_metadata(&path).expect("it is there").uid();
        assert_eq!(owner, NOBODY, "{}", path.display());
    }
}

/// A file of root's, and a way to it in the place of each file that a trace of a domain has.
fn lead_astray(place: &Workplace, folder: &Path, names: &[&str], link: impl Fn(&Path, &Path)) -> PathBuf {
    let victim = place.path("victim");
    fs::write(&victim, "precious").expect("it can be written");
    fs::set_permissions(&victim, Permissions::from_mode(0o600)).expect("it is ours");
    fs::create_dir_all(folder.join("index")).expect("folders can be made there");
    for name in names {
        link(&victim, &folder.join(name));
    }
    for path in all(folder).into_iter().filter(|path| path.is_dir()) {
        chown(&path, Some(NOBODY), Some(NOBODY)).expect("it is ours");
    }
    victim
}

fn expect_untouched(victim: &Path) {
    assert_eq!(fs::read_to_string(victim).expect("it is there"), "precious");
    assert_eq!(fs::metadata(victim).expect("it is there").uid(), 0);
}

const PROGRAMS_FILES: [&str; 4] = [".metadata.part", "metadata", "default_1", "index/default_1.idx"];

/// A way from the second path to the first.
type Lead = fn(&Path, &Path);

#[test]
fn member_leads_pisted_to_no_file_of_others() {
    let links: [(&str, Lead); 2] = [
        ("symlink", |victim, path| symlink(victim, path).expect("a link")),
        ("hard link", |victim, path| fs::hard_link(victim, path).expect("a link")),
    ];
    for (name, link) in links {
        let place = Workplace::new();
        let Some(open) = open(&place) else { return };
        let program = place.program("brackets.c");
        let output = open.home().join("trace");
        open.piste(&["create", "astray", "-o", text(&output)]).expect_success();
        open.piste(&["enable-event", "-u", "brackets:*"]).expect_success();
        let victim = lead_astray(&place, &output.join("user"), &PROGRAMS_FILES, link);
        let pids = (place.pisted(), place.consumer());
        let started = open.piste(&["start"]);
        place.run(&program, &["100"]).expect_success();
        let stopped = open.piste(&["stop"]);
        expect_untouched(&victim);
        let told = format!("{name}: {started}{stopped}");
        let is_told = told.contains("cannot write the trace") && told.contains(text(&output.join("user")));
        assert!(is_told, "{told}");
        open.piste(&["destroy"]);
        assert_eq!((place.pisted(), place.consumer()), pids, "both live on");
    }
}

/// Whoever has this may use what a file system keeps for root, and more than quotas allow.
fn say_whether_root_is_above_limits() {
    const CAP_SYS_RESOURCE: u32 = 24;
    let status = fs::read_to_string("/proc/self/status").expect("the kernel's text");
    let held = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let held = held.and_then(|held| u64::from_str_radix(held.trim(), 16).ok());
    if held.expect("a number") >> CAP_SYS_RESOURCE & 1 == 0 {
        println!("skipped: that pisted gives up CAP_SYS_RESOURCE, which root does not have here");
    }
}

/// Records more than the disk has for the member.
fn record_too_much(open: &Open<'_>, disk: &Disk) -> Finished {
    let (program, trace) = (open.place.program("count.c"), disk.folder.join("trace"));
    let record = ["record", "-u", "count:*", "-o", text(&trace), "--"];
    open.piste(&[&record[..], &[text(&program), "1", "3000000"]].concat())
}

#[test]
fn a_members_trace_takes_no_more_than_the_members_quota() {
    const QUOTA_BYTES: u64 = 8 << 20;
    let place = Workplace::new();
    let Some(open) = open(&place) else { return };
    let Some(disk) = Disk::with_quota(&place, 64 << 20, NOBODY, QUOTA_BYTES) else {
        return;
    };
    say_whether_root_is_above_limits();
    fs::set_permissions(&disk.folder, Permissions::from_mode(0o777)).expect("it is ours");
    let recorded = record_too_much(&open, &disk);
    assert!(recorded.stderr.contains("Disk quota exceeded"), "{recorded}");
    let files = all(&disk.folder.join("trace"));
    let used: u64 = files
        .iter()
        .map(|path| fs::metadata(path).expect("it is there").blocks() * 512)
        .sum();
    assert!(used > QUOTA_BYTES / 2 && used <= QUOTA_BYTES, "{used} bytes");
}

/// What a file system keeps for root is for nobody whom root's pisted serves.
#[test]
fn a_members_trace_takes_nothing_of_what_a_disk_keeps_for_root() {
    let place = Workplace::new();
    let Some(open) = open(&place) else { return };
    let Some(disk) = Disk::new(&place, 64 << 20, 40) else {
        return;
    };
    say_whether_root_is_above_limits();
    fs::set_permissions(&disk.folder, Permissions::from_mode(0o777)).expect("it is ours");
    let space = || rustix::fs::statvfs(&disk.folder).expect("it is mounted");
    let filled = format!("of={}", text(&disk.folder.join("filled")));
    open.member("dd", &["if=/dev/zero", &filled, "bs=1M", "count=24"])
        .expect_success();
    let before = space();
    let kept = before.f_bfree - before.f_bavail;
    assert!(kept * before.f_frsize > 16 << 20, "{kept} blocks are kept for root");

    let recorded = record_too_much(&open, &disk);
    assert!(recorded.stderr.contains("no space left on device"), "{recorded}");
    let left = space().f_bfree;
    // Folders grow by blocks that are anybody's.
    assert!(
        left + 64 > kept,
        "{left} of {kept} blocks that are kept for root are left"
    );
}

#[test]
fn a_pipe_in_the_place_of_a_file_holds_nobody_up() {
    let place = Workplace::new();
    let Some(open) = open(&place) else { return };
    let program = place.program("brackets.c");
    let output = open.home().join("trace");
    open.piste(&["create", "held", "-o", text(&output)]).expect_success();
    open.piste(&["enable-event", "-u", "brackets:*"]).expect_success();
    fs::create_dir_all(output.join("user")).expect("a folder can be made there");
    chown(output.join("user"), Some(NOBODY), Some(NOBODY)).expect("it is ours");
    open.member("mkfifo", &[text(&output.join("user/.metadata.part"))])
        .expect_success();
    let started = open.piste(&["start"]);
    assert!(!started.success(), "{started}");
    open.piste(&["destroy"]);
    // Another session is recorded as ever.
    let recorded = place.record(&["-u", "brackets:*"], program, &["100"]);
    recorded.expect_whole();
}

#[test]
fn member_leads_pisted_to_no_file_of_others_with_the_kernel() {
    let Some(place) = kernel::shared_workplace() else {
        return;
    };
    let Some(open) = open(&place) else { return };
    let output = open.home().join("trace");
    open.piste(&["create", "astray", "-o", text(&output)]).expect_success();
    open.piste(&["enable-event", "-k", "sched_switch"]).expect_success();
    open.piste(&["start"]).expect_success();
    std::thread::sleep(std::time::Duration::from_millis(200));
    fs::rename(output.join("kernel"), output.join("kernel.old")).expect("it can be renamed");
    let files: Vec<String> = (0..64)
        .flat_map(|cpu| [format!("default_{cpu}"), format!("index/default_{cpu}.idx")])
        .chain([".metadata.part".into(), "statedump_0".into()])
        .collect();
    let files: Vec<&str> = files.iter().map(String::as_str).collect();
    let victim = lead_astray(&place, &output.join("kernel"), &files, |victim, path| {
        symlink(victim, path).expect("a link");
    });
    open.piste(&["enable-event", "-k", "sched_waking"]);
    let pids = (place.pisted(), place.kernel_consumer());
    // A chunk that has begun to be finished is waited for until it can be written.
    open.member("timeout", &["5", text(&open.piste), "rotate"]);
    open.piste(&["stop"]);
    expect_untouched(&victim);
    assert_eq!((place.pisted(), place.kernel_consumer()), pids, "both live on");
    open.piste(&["destroy"]);
    expect_untouched(&victim);
}

/// Only root may read it.
fn hide(path: &Path) {
    fs::set_permissions(path, Permissions::from_mode(0o700)).expect("it is ours");
}

fn expect_denied(finished: &Finished) {
    let told = finished.to_string();
    assert!(!finished.success() && told.contains("permission denied"), "{told}");
}

/// A program of the same functions under other names.
fn renamed_probed(place: &Workplace, name: &str) -> PathBuf {
    let program = place.path(name);
    let rename = ["--redefine-sym", "work=secret_work"];
    process::run(
        Command::new("objcopy")
            .args(rename)
            .arg(place.program("probed.c"))
            .arg(&program),
    )
    .expect_success();
    program
}

#[test]
fn member_learns_no_names_of_what_the_member_may_not_read() {
    let place = Workplace::new();
    let Some(open) = open(&place) else { return };
    let program = place.program("probed.c");
    let list = |path: &Path, kind: &str| open.piste(&["list", kind, text(path)]);
    assert!(list(&program, "--symbols").expect_success().stdout.contains("work"));
    assert!(list(&program, "--usdt").expect_success().stdout.contains("shop:order"));

    // The names of a program that was stripped are in its debug file.
    let (stripped, debug) = (place.path("stripped"), place.path("stripped.debug"));
    let link = format!("--add-gnu-debuglink={}", debug.display());
    let binutils = |arguments: &[&str]| {
        process::run(Command::new("objcopy").args(arguments)).expect_success();
    };
    binutils(&["--only-keep-debug", text(&program), text(&debug)]);
    binutils(&["--strip-all", &link, text(&program), text(&stripped)]);
    assert!(list(&stripped, "--symbols").stdout.contains("work"));
    hide(&debug);
    let said = list(&stripped, "--symbols");
    for said in [&said.stdout, &said.stderr] {
        assert!(!said.replace(text(&place.path("")), "").contains("work"), "{said}");
    }
    let of_root = place.piste_succeeds(&["list", "--symbols", text(&stripped)]);
    assert!(of_root.contains("work"), "{of_root}");

    hide(&program);
    expect_denied(&list(&program, "--symbols"));
    expect_denied(&list(&program, "--usdt"));
}

/// The kernel lets whoever may debug a process go through these, whoever may enter the folders there.
#[test]
fn the_ways_through_proc_are_those_of_the_member() {
    let place = Workplace::new();
    let Some(open) = open(&place) else { return };
    // A folder of the member's, in one that only root may enter.
    let (vault, program) = (place.path("vault"), place.program("probed.c"));
    let shelf = vault.join("shelf");
    fs::create_dir_all(&shelf).expect("folders can be made there");
    chown(&shelf, Some(NOBODY), Some(NOBODY)).expect("it is ours");
    fs::copy(&program, shelf.join("probed")).expect("it can be copied");
    hide(&vault);
    let roots = process::Running::start(place.command("sleep").arg("infinity").current_dir(&shelf));
    let through = |way: &str| format!("/proc/{}/{way}", roots.pid());

    for (way, path) in [
        ("cwd", "trace".to_owned()),
        ("root", text(&open.home().join("trace"))[1..].to_owned()),
    ] {
        expect_denied(&open.piste(&["create", "x", "-o", &through(&format!("{way}/{path}"))]));
    }
    for way in ["cwd/probed", &format!("root{}", program.display()), "exe"] {
        let asked = open.symbols(&through(way));
        assert!(asked.contains("permission denied"), "{asked}");
    }
    assert!(open.symbols(text(&program)).contains("work"));
    assert_eq!(all(&shelf).len(), 2, "the folder itself and the program");
}

#[test]
fn member_probes_nothing_that_the_member_may_not_read() {
    let Some(place) = kernel::shared_workplace() else {
        return;
    };
    let Some(open) = open(&place) else { return };
    let (program, secret) = (place.program("probed.c"), renamed_probed(&place, "secret"));
    hide(&secret);
    let home = open.home();
    open.piste(&["create", "probes", "-o", text(&home.join("trace"))])
        .expect_success();
    let enable = |options: &[&str]| open.piste(&[&["enable-event", "-k"], options].concat());
    expect_denied(&enable(&["--uprobe", &format!("{}:secret_work", secret.display())]));
    expect_denied(&enable(&["--usdt", &format!("{}:shop:order", secret.display())]));

    // What was looked at may be something else when it is probed.
    let way = home.join("way");
    symlink(&program, &way).expect("a link");
    enable(&["--uprobe", &format!("{}:work", way.display())]).expect_success();
    fs::remove_file(&way).expect("it is ours");
    symlink(&secret, &way).expect("a link");
    enable(&["sched_switch"]).expect_success();
    let status = open.piste(&["status", "probes"]);
    assert!(!status.to_string().contains("secret_work"), "{status}");
    assert!(status.to_string().contains("permission denied"), "{status}");

    // Nor does anybody probe it for somebody who may not.
    let of_root = format!("{}:secret_work", secret.display());
    expect_denied(&place.piste(&["enable-event", "-k", "-s", "probes", "--uprobe", &of_root]));
    open.piste(&["destroy", "probes"]).expect_success();
}

fn expect_root_only(finished: &Finished, what: &str) {
    let told = finished.to_string();
    let is_refused = !finished.success() && told.contains("is not permitted") && told.contains(what);
    assert!(is_refused, "{what}: {told}");
}

/// Bytes behind the beginning of `work` at which its second instruction begins, and where in the file `work` begins.
fn places_in_work(place: &Workplace, program: &Path) -> (u64, u64) {
    let number = |text: &str| u64::from_str_radix(text.trim(), 16).expect("hexadecimal");
    let listing = process::run(Command::new("objdump").args(["-d", "--disassemble=work"]).arg(program));
    let addresses = listing
        .expect_success()
        .stdout
        .lines()
        .skip_while(|line| !line.contains("<work>:"));
    let addresses: Vec<u64> = addresses
        .skip(1)
        .take(2)
        .map(|line| number(line.split(':').next().expect("one")))
        .collect();
    let listed = place.piste_json(&["list", "--symbols", text(program), "work"]);
    let offset = listed["places"][0]["offset_bytes"].as_u64().expect("a number");
    (addresses[1] - addresses[0], offset)
}

#[test]
fn member_neither_reads_memory_nor_changes_programs_with_probes() {
    let Some(place) = kernel::shared_workplace() else {
        return;
    };
    let Some(open) = open(&place) else { return };
    let program = place.program("probed.c");
    let path = text(&program).to_owned();
    let (second, offset) = places_in_work(&place, &program);
    assert!(second > 1, "it is longer than a byte");
    let output = open.home().join("trace");
    open.piste(&["create", "probes", "-o", text(&output)]).expect_success();
    let enable = |option: &str, place: &str| open.piste(&["enable-event", "-k", option, place]);

    for at in [offset, offset + 1] {
        expect_root_only(&enable("--uprobe", &format!("{path}:{at:#x}")), "offset of the file");
    }
    for argument in [
        "+0(%si):string",
        "+0(%si):ustring",
        "$stack1",
        "@0x400000",
        "@+0x10",
        "%si:symstr",
    ] {
        let asked = format!("{path}:work number=%di:s32 memory={argument}");
        expect_root_only(&enable("--uprobe", &asked), "read from memory");
    }
    expect_root_only(&enable("--uretprobe", &format!("{path}:work")), "returns");
    expect_root_only(&enable("--kprobe", "do_exit"), "in the kernel");

    // In the middle of an instruction nobody probes by the name of a function.
    let middle = format!("{path}:work+1");
    let of_root = place.piste(&["enable-event", "-k", "-s", "probes", "--uprobe", &middle]);
    for refused in [enable("--uprobe", &middle), of_root] {
        let told = refused.to_string();
        assert!(!refused.success() && told.contains("inside the instruction"), "{told}");
    }
    // Nor does root ask for the member to whom the trace is.
    let of_root = format!("{path}:work memory=+0(%si):string");
    let refused = place.piste(&["enable-event", "-k", "-s", "probes", "--uprobe", &of_root]);
    expect_root_only(&refused, "read from memory");

    enable("--uprobe", &format!("{path}:work number=%di:s32")).expect_success();
    let second = format!("{path}:work+{second}");
    open.piste(&["enable-event", "-k", "--uprobe", &second, "--name", "second"])
        .expect_success();
    enable("--usdt", &format!("{path}:shop:order")).expect_success();
    open.piste(&["start"]).expect_success();
    let mut running = place.start(&program, &["4"]);
    assert_eq!(running.line(), "ready");
    running.ask("begin");
    running.say("end");
    running.finish().expect_success();
    open.piste(&["destroy", "probes"]).expect_success();
    let counts = Trace::at(output.join("kernel")).counts();
    for name in ["probed_work", "second", "shop:order"] {
        assert_eq!(counts.get(name), Some(&4), "{counts:?}");
    }
}

#[test]
fn folders_are_made_only_where_the_member_may_and_are_the_members() {
    let place = Workplace::new();
    let Some(open) = open(&place) else { return };
    let program = place.program("brackets.c");
    let roots = place.path("roots");
    fs::create_dir(&roots).expect("a folder can be made there");
    let refused = open.piste(&["create", "x", "-o", text(&roots.join("x"))]);
    assert!(
        !refused.success() && refused.stderr.contains("permission denied"),
        "{refused}"
    );
    // One that is there and is empty.
    let refused = open.piste(&["create", "x", "-o", text(&roots)]);
    assert!(
        !refused.success() && refused.stderr.contains("permission denied"),
        "{refused}"
    );

    // What a group of theirs may write to.
    chown(&roots, Some(0), Some(GROUP)).expect("it is ours");
    fs::set_permissions(&roots, Permissions::from_mode(0o770)).expect("it is ours");
    let of_group = text(&roots.join("of group")).to_owned();
    let create = ["create", "x", "-o", &of_group];
    let refused = open.piste(&create);
    assert!(!refused.success(), "{refused}");
    let groups = format!("--groups={GROUP}");
    open.member_with(&groups, &open.piste, &create).expect_success();
    expect_owner(Path::new(&of_group));
    open.piste(&["destroy", "x"]).expect_success();

    let home = open.home();
    let output = home.join("flight");
    open.piste(&["create", "flight", "--snapshot", "-o", text(&output)])
        .expect_success();
    open.piste(&["enable-event", "-u", "brackets:*"]).expect_success();
    open.piste(&["start"]).expect_success();
    place.run(&program, &["100"]).expect_success();
    let refused = open.piste(&["snapshot", "record", "-o", text(&roots.join("y"))]);
    assert!(
        !refused.success() && refused.stderr.contains("permission denied"),
        "{refused}"
    );
    assert_eq!(all(&roots).len(), 1, "the folder itself");
    open.piste(&["snapshot", "record", "-o", text(&home.join("snapshot"))])
        .expect_success();
    open.piste(&["snapshot", "record"]).expect_success();
    open.piste(&["destroy"]).expect_success();
    assert_eq!(Trace::at(home.join("snapshot")).event_count(), 200);

    let output = home.join("streamed");
    open.piste(&["create", "streamed", "-o", text(&output)])
        .expect_success();
    open.piste(&["enable-event", "-u", "brackets:*"]).expect_success();
    open.piste(&["start"]).expect_success();
    place.run(&program, &["100"]).expect_success();
    open.piste(&["rotate"]).expect_success();
    place.run(&program, &["100"]).expect_success();
    // Whoever takes over knows whose it is.
    place.kill_pisted();
    process::send(place.consumer(), rustix::process::Signal::KILL);
    place.start_pisted();
    let control = place.run_folder().join("control.sock");
    fs::set_permissions(&control, Permissions::from_mode(0o666)).expect("it is ours");
    place.run(&program, &["100"]).expect_success();
    open.piste(&["rotate"]).expect_success();
    open.piste(&["destroy"]).expect_success();
    expect_owner(&home);
    assert_eq!(fs::metadata(&output).expect("it is there").mode() & 0o777, 0o700);
    open.piste(&["stats", text(&output)]).expect_success();
    open.member("rm", &["-rf", text(&output)]).expect_success();
    assert!(!output.exists());
}

#[test]
fn what_a_member_asks_for_without_a_place_goes_to_the_members_home() {
    let place = Workplace::new();
    let Some(open) = open(&place) else { return };
    // Nobody's home is where nothing can be made.
    let refused = open.piste(&["create", "x"]);
    assert!(
        !refused.success() && refused.stderr.contains("/nonexistent"),
        "{refused}"
    );
}
