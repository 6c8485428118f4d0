// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which daemon a program obeys: root's, and its user's only when it never had other rights than its user. Only root can see to it: the tests
//! run in a mount and a process namespace of their own, where the usual places of daemons are empty.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use piste_support::process::{self, Finished, Running, wait_until};
use piste_support::{Compilation, Trace, Workplace, users};
use serde_json::Value;

const USER: u32 = 65_533;

/// The namespaces live as long as this does.
struct Machine<'a> {
    place: &'a Workplace,
    holder: Running,
}

/// `None`, once said why, where nobody can be anybody else.
fn machine(place: &Workplace) -> Option<Machine<'_>> {
    if !users::enter(place) {
        return None;
    }
    let mut unshare = place.command("unshare");
    unshare
        .args([
            "--mount",
            "--pid",
            "--fork",
            "--kill-child",
            "--mount-proc",
            "sh",
            "-ec",
        ])
        .arg(format!(
            "mount -t tmpfs run /run; mount -t tmpfs shm /dev/shm; chmod 1777 /dev/shm
             mkdir -p -m 755 /run/user; mkdir -m 700 /run/user/{USER}; chown {USER}:{USER} /run/user/{USER}
             echo ready; exec sleep infinity"
        ));
    let mut holder = Running::start(&mut unshare);
    assert_eq!(holder.line(), "ready");
    Some(Machine { place, holder })
}

impl Machine<'_> {
    /// A command in the namespaces, with daemons in their usual places.
    fn command(&self, prefix: &[&str], program: &Path, arguments: &[&str]) -> Command {
        let mut command = self.place.command("nsenter");
        // The child is the first process of the namespace, and has a /proc of its own.
        let first = fs::read_to_string(format!("/proc/{0}/task/{0}/children", self.holder.pid())).expect("a list");
        command
            .args(["--target", first.trim(), "--mount", "--pid"])
            .args(prefix)
            .arg(program)
            .args(arguments)
            .env_remove("PISTE_RUNDIR")
            .env("LD_LIBRARY_PATH", self.place.path("lib"));
        command
    }

    fn root(&self, program: &Path, arguments: &[&str]) -> Finished {
        process::run(&mut self.command(&[], program, arguments))
    }

    fn user(&self, program: &Path, arguments: &[&str]) -> Finished {
        process::run(&mut self.command_of_user(program, arguments))
    }

    fn command_of_user(&self, program: &Path, arguments: &[&str]) -> Command {
        self.command_of_user_with(&[], program, arguments)
    }

    /// With more options of setpriv.
    fn command_of_user_with(&self, options: &[&str], program: &Path, arguments: &[&str]) -> Command {
        let ids = [format!("--reuid={USER}"), format!("--regid={USER}")];
        // setpriv itself still has root's capabilities when it becomes another program, so that may not be the one.
        let (begin, end) = (
            ["setpriv", &ids[0], &ids[1], "--clear-groups"],
            ["sh", "-c", "exec \"$0\" \"$@\""],
        );
        self.command(&[&begin, options, &end].concat(), program, arguments)
    }

    /// What a command of root's says, without the line's end.
    fn ask(&self, program: &str, arguments: &[&str]) -> String {
        let finished = self.root(Path::new(program), arguments);
        finished.expect_success().stdout.trim_end().to_owned()
    }
}

/// Starts a recording of everything, by one of the two.
fn start(piste: impl Fn(&[&str]) -> Finished, output: &Path) {
    for command in [
        vec!["create", "all", "-o", output.to_str().expect("UTF-8")],
        vec!["enable-event", "-u", "*"],
        vec!["start"],
    ] {
        piste(&command).expect_success();
    }
}

/// The first field of every event, in the order of their time.
fn modes(trace: &Path) -> Vec<String> {
    let events = Trace::at(trace).events();
    let secrets = events.iter().filter(|event| event.name == "privileges:secret");
    secrets
        .map(|event| event.field("mode").expect("a field").trim_matches('"').to_owned())
        .collect()
}

/// What `security.capability` says of a file that gives cap_net_bind_service (bit 10): version 2, effective; permitted, inheritable.
const FILE_CAPABILITIES: [u32; 5] = [0x0200_0001, 1 << 10, 0, 0, 0];

#[test]
fn a_program_with_raised_rights_obeys_root_only() {
    let place = Workplace::new();
    let Some(machine) = machine(&place) else { return };
    let (piste, usual) = (place.path("bin/piste"), place.path("privileges"));
    Compilation::of(&["privileges.c"]).linked_statically().link(&usual);
    let copy = |name: &str, mode: u32| {
        let program = place.path(name);
        fs::copy(&usual, &program).expect("it can be copied");
        fs::set_permissions(&program, Permissions::from_mode(mode)).expect("it is ours");
        program
    };
    let (raised, of_group, unreadable) = (
        copy("raised", 0o4755),
        copy("of-group", 0o2755),
        copy("unreadable", 0o711),
    );
    let capable = copy("capable", 0o755);
    let capabilities = FILE_CAPABILITIES.map(u32::to_le_bytes).concat();
    rustix::fs::setxattr(
        &capable,
        "security.capability",
        &capabilities,
        rustix::fs::XattrFlags::CREATE,
    )
    .expect("files can have capabilities there");
    // As systemd does for AmbientCapabilities=.
    let ambient = ["--inh-caps=+net_bind_service", "--ambient-caps=+net_bind_service"];

    // The user's own daemon sees the program that is the user's, before and after.
    let home = place.path("home");
    fs::create_dir(&home).expect("a folder can be made there");
    fs::set_permissions(&home, Permissions::from_mode(0o777)).expect("it is ours");
    let (of_user, of_root) = (home.join("of-user"), place.path("of-root"));
    start(|arguments| machine.user(&piste, arguments), &of_user);
    let run_all = || {
        machine.user(&usual, &["keep"]).expect_success();
        machine.user(&raised, &["keep"]).expect_success();
        machine.user(&of_group, &["keep"]).expect_success();
        machine.user(&capable, &["keep"]).expect_success();
        machine.user(&unreadable, &["keep"]).expect_success();
        process::run(&mut machine.command_of_user_with(&ambient, &usual, &["keep"])).expect_success();
        machine.root(&usual, &["drop", &USER.to_string()]).expect_success();
        machine.user(&usual, &["keep"]).expect_success();
    };
    run_all();
    machine.user(&piste, &["destroy"]).expect_success();
    assert_eq!(modes(&of_user), ["usual", "usual"]);

    // Root's sees them all.
    start(|arguments| machine.root(&piste, arguments), &of_root);
    run_all();
    machine.root(&piste, &["destroy"]).expect_success();
    let all = [
        "usual",
        "raised",
        "other group",
        "capable",
        "usual",
        "capable",
        "dropped",
        "child of dropped",
        "usual",
    ];
    assert_eq!(modes(&of_root), all);
}

/// It made the state page on which it waits itself, and whoever owns that could keep others from being told.
#[test]
fn a_program_that_ran_before_the_first_pisted_of_root_is_recorded_by_it_and_by_the_next() {
    const STATE: &str = "/dev/shm/piste-state-0";
    let place = Workplace::new();
    let Some(machine) = machine(&place) else { return };
    let (piste, program) = (place.path("bin/piste"), place.path("puppet"));
    Compilation::of(&["puppet.c"]).linked_statically().link(&program);
    let mut puppet = Running::start(machine.command_of_user(&program, &[]).stdin(Stdio::piped()));
    wait_until("the program waits for root's pisted", || {
        machine.root(Path::new("test"), &["-s", STATE]).success()
    });
    assert_eq!(machine.ask("stat", &["-c", "%u", STATE]), USER.to_string());

    // `None` while one dies that was to answer.
    let pisted = || {
        let version = machine.root(&piste, &["--json", "version"]);
        let version: Option<Value> = serde_json::from_str(&version.stdout).ok();
        version.map(|version| version["pisted"]["pid"].clone())
    };
    for round in ["first", "second"] {
        let output = place.path(round);
        start(|arguments| machine.root(&piste, arguments), &output);
        assert_eq!(machine.ask("stat", &["-c", "%u %a", STATE]), "0 644");
        assert_eq!(puppet.ask("wait"), "done");
        assert_eq!(puppet.ask("record 3"), "done");
        machine.root(&piste, &["destroy"]).expect_success();
        assert_eq!(Trace::at(output).counts().get("shop:order"), Some(&3), "{round}");
        wait_until("the events are disabled", || puppet.ask("enabled").is_empty());

        machine
            .root(Path::new("kill"), &["-9", &pisted().expect("one runs").to_string()])
            .expect_success();
        wait_until("pisted is dead", || pisted() == Some(Value::Null));
    }
    puppet.finish().expect_success();
}

/// logind removes the files of a user who logs out; others put there what no program can wait on.
#[test]
fn a_program_whose_state_page_went_finds_the_first_pisted_of_root() {
    const STATE: &str = "/dev/shm/piste-state-0";
    let place = Workplace::new();
    let Some(machine) = machine(&place) else { return };
    let (piste, program) = (place.path("bin/piste"), place.path("puppet"));
    Compilation::of(&["puppet.c"]).linked_statically().link(&program);
    let of_user = |words: &str| {
        machine.user(Path::new("sh"), &["-ec", words]).expect_success();
    };
    let start_puppet = || Running::start(machine.command_of_user(&program, &[]).stdin(Stdio::piped()));
    let spoil = [
        format!("rm {STATE}; ln -s /nowhere {STATE}"),
        format!("rm {STATE}; mkdir {STATE}"),
        format!("rm {STATE}; : >{STATE}; chmod 000 {STATE}"),
        format!("ln {STATE} {STATE}.too"),
        format!("rm -f {STATE}"),
    ];
    let mut puppets = vec![];
    for words in &spoil {
        // One that waits already, and one that finds nothing to wait on.
        let mut early = start_puppet();
        early.ask("enabled");
        wait_until("the program waits for root's pisted", || {
            machine.root(Path::new("test"), &["-s", STATE]).success()
        });
        of_user(words);
        let mut late = start_puppet();
        late.ask("enabled");
        puppets.extend([early, late]);
        if !words.contains("rm -f") {
            of_user(&format!("rm -rf {STATE}"));
        }
    }
    of_user(&format!("ln -sfn /nowhere {STATE}"));
    let output = place.path("trace");
    start(|arguments| machine.root(&piste, arguments), &output);
    for puppet in &mut puppets {
        assert_eq!(puppet.ask("wait"), "done");
        assert_eq!(puppet.ask("record 1"), "done");
    }
    machine.root(&piste, &["destroy"]).expect_success();
    assert_eq!(
        Trace::at(output).counts().get("shop:order"),
        Some(&(puppets.len() as u64))
    );
}

#[test]
fn root_s_run_folder_is_for_everybody_whatever_the_umask() {
    let place = Workplace::new();
    let Some(machine) = machine(&place) else { return };
    let piste = place.path("bin/piste");
    let list = format!("umask 077; exec {} list", piste.display());
    machine.root(Path::new("sh"), &["-c", &list]).expect_success();
    assert_eq!(machine.ask("stat", &["-c", "%a", "/run/piste"]), "755");
    assert_eq!(machine.ask("stat", &["-c", "%a", "/run/piste/app.sock"]), "666");

    // A program of somebody else reaches root's pisted.
    let (program, output) = (place.path("privileges"), place.path("trace"));
    Compilation::of(&["privileges.c"]).linked_statically().link(&program);
    start(|arguments| machine.root(&piste, arguments), &output);
    machine.user(&program, &["keep"]).expect_success();
    machine.root(&piste, &["destroy"]).expect_success();
    assert_eq!(modes(&output), ["usual"]);
}

#[test]
fn a_program_with_raised_rights_takes_no_run_folder() {
    let place = Workplace::new();
    let Some(machine) = machine(&place) else { return };
    let raised = place.path("raised");
    Compilation::of(&["privileges.c"]).linked_statically().link(&raised);
    fs::set_permissions(&raised, Permissions::from_mode(0o4755)).expect("it is ours");
    let output = place.path("trace");
    start(|arguments| place.piste(arguments), &output);
    fs::set_permissions(place.run_folder(), Permissions::from_mode(0o755)).expect("it is ours");
    fs::set_permissions(place.run_folder().join("app.sock"), Permissions::from_mode(0o666)).expect("it is ours");
    for (rights, program) in [(0o4755, "raised"), (0o755, "usual")] {
        let program = place.path(program);
        if !program.exists() {
            fs::copy(&raised, &program).expect("it can be copied");
        }
        fs::set_permissions(&program, Permissions::from_mode(rights)).expect("it is ours");
        let ids = [format!("--reuid={USER}"), format!("--regid={USER}")];
        let mut command = place.command("setpriv");
        command.args(&ids).arg("--clear-groups").arg(&program).arg("keep");
        process::run(&mut command).expect_success();
    }
    drop(machine);
    place.piste_succeeds(&["destroy"]);
    assert_eq!(modes(&output), ["usual"]);
}

/// Of the members that root's pisted serves.
const GROUP: u32 = 65_532;

#[test]
fn members_of_the_group_reach_roots_pisted_and_others_their_own() {
    let place = Workplace::new();
    let Some(machine) = machine(&place) else { return };
    let piste = place.path("bin/piste");
    let run_folder = |groups: &str| {
        let ids = [format!("--reuid={USER}"), format!("--regid={USER}")];
        let prefix = ["setpriv", &ids[0], &ids[1], groups, "sh", "-c", "exec \"$0\" \"$@\""];
        let finished = process::run(&mut machine.command(&prefix, &piste, &["version", "--json"]));
        let version: Value = serde_json::from_str(&finished.expect_success().stdout).expect("JSON");
        version["pisted"]["run_folder"].as_str().map(str::to_owned)
    };
    let (member, stranger) = (format!("--groups={GROUP}"), "--clear-groups");
    assert_eq!(run_folder(&member), None);

    machine.root(&piste, &["create", "roots"]).expect_success();
    let control = "/run/piste/control.sock";
    machine.ask("chgrp", &[&GROUP.to_string(), control]);
    machine.ask("chmod", &["660", control]);
    assert_eq!(run_folder(&member).as_deref(), Some("/run/piste"));
    assert_eq!(run_folder(stranger), None);

    // What neither may trace, the whole system, is no empty recording.
    let all = format!("/run/user/{USER}/all");
    let refused = machine.user(&piste, &["record", "-a", "-d", "100ms", "-o", &all]);
    assert_eq!(refused.status, 125, "{refused}");
    assert!(refused.stderr.contains("only root may trace it"), "{refused}");
    assert_eq!(run_folder(stranger), Some(format!("/run/user/{USER}/piste")));
    assert_eq!(run_folder(&member).as_deref(), Some("/run/piste"));

    // Where root's has gone, the user's own is left.
    let pid = machine.ask("cat", &["/run/piste/pisted.pid"]);
    machine.ask("kill", &["-9", &pid]);
    wait_until("root's pisted has ended", || {
        run_folder(&member) == Some(format!("/run/user/{USER}/piste"))
    });
}
