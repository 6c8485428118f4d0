// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a daemon that died left in the kernel is found and removed, and nothing else is. Needs root and tracefs.

mod real;

use std::env;
use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::Path;
use std::process::{Command, Stdio, id};
use std::thread;
use std::time::Duration;

use piste_kernel::instance::Instance;
use piste_kernel::owner::{DeadOwner, Owner, leftovers};
use piste_kernel::spec::Loss;
use piste_kernel::tracefs::Tracefs;
use real::Fixture;
use rustix::process::{Pid, Signal, kill_process};

const RUN_OF_THE_DYING: &str = "PISTE_TEST_RUN_OF_THE_DYING";
const TRACED: &str = "events/sched/sched_process_exec";

#[test]
fn instances_of_a_dead_owner_are_removed_and_no_others() {
    let Some(place) = Fixture::new() else { return };
    let living = place.instance(Loss::Discard, 4096, 4);
    let foreign = Foreign::make(&place.tracefs, &format!("test-of-others-{}", id()));
    // As of an owner whose locks are elsewhere, in a container.
    let elsewhere = Foreign::make(
        &place.tracefs,
        &format!("piste-{:016x}-1-default", 0xeeee_0000_0000_0000 | u64::from(id())),
    );

    let dead_run = place.run.path().join("dead");
    fs::create_dir(&dead_run).unwrap();
    let status = Command::new(env::current_exe().unwrap())
        .args(["--exact", "dying_daemon", "--ignored"])
        .env(RUN_OF_THE_DYING, &dead_run)
        .stdout(Stdio::null())
        .status()
        .unwrap();
    assert!(!status.success());

    let (dead, others) = dead_owner(&dead_run);
    let dead = dead.expect("it left its lock");
    assert!(
        !others.iter().any(|owner| owner.id() == place.owner.id()),
        "a living owner"
    );
    drop(others);
    let names = dead.instances(&place.tracefs).unwrap();
    assert_eq!(
        names,
        ["1-default", "2-a-b"].map(|rest| format!("piste-{}-{rest}", dead.id()))
    );
    assert_eq!(dead.remove_instances(&place.tracefs), Vec::<String>::new());
    assert_eq!(dead.instances(&place.tracefs).unwrap(), Vec::<String>::new());
    dead.forget().unwrap();

    for folder in [living.folder(), &foreign.0, &elsewhere.0] {
        assert!(folder.exists(), "{folder:?}");
    }
    assert!(dead_owner(&dead_run).0.is_none(), "it is forgotten");
}

/// The other process.
#[test]
#[ignore = "started by the other test"]
fn dying_daemon() {
    let Ok(run) = env::var(RUN_OF_THE_DYING) else { return };
    let tracefs = Tracefs::find().unwrap();
    let owner = Owner::claim(Path::new(&run)).unwrap();
    for (session, channel) in [(1, "default"), (2, "a-b")] {
        let instance = Instance::create_or_open(&tracefs, &owner, session, channel).unwrap();
        instance.write(format!("{TRACED}/enable"), "1").unwrap();
        instance.write(format!("{TRACED}/trigger"), "stacktrace").unwrap();
        instance.set_on(true).unwrap();
    }
    kill_process(Pid::from_raw(id().cast_signed()).unwrap(), Signal::KILL).unwrap();
}

#[test]
fn an_instance_that_somebody_reads_is_off_and_goes_when_it_can() {
    let Some(place) = Fixture::new() else { return };
    let instance = place.instance(Loss::Discard, 4096, 4);
    instance.write(format!("{TRACED}/enable"), "1").unwrap();
    let triggers = ["stacktrace if common_pid > 1", "traceoff:5"];
    for trigger in triggers {
        instance.append(format!("{TRACED}/trigger"), trigger).unwrap();
    }
    let reader = File::open(instance.path("per_cpu/cpu0/trace_pipe_raw")).unwrap();
    let error = instance.clone().remove().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ResourceBusy, "{error}");
    assert!(error.to_string().contains("another process is reading it"), "{error}");
    assert_eq!(instance.read("tracing_on").unwrap().trim(), "0");
    assert_eq!(instance.read(format!("{TRACED}/enable")).unwrap().trim(), "0");
    let left = instance.read(format!("{TRACED}/trigger")).unwrap();
    assert!(left.lines().all(|line| line.starts_with('#')), "{left}");

    thread::scope(|scope| {
        scope.spawn(|| {
            thread::sleep(Duration::from_millis(100));
            drop(reader);
        });
        instance.clone().remove().unwrap();
    });
    assert!(!instance.folder().exists());
    instance.remove().expect("what is gone is removed");
}

/// The dead owner of a run folder, and all others that are dead.
fn dead_owner(run: &Path) -> (Option<DeadOwner>, Vec<DeadOwner>) {
    let id = fs::read_to_string(run.join("kernel/owner")).unwrap();
    let (mut its, others): (Vec<_>, Vec<_>) = leftovers(Duration::ZERO)
        .unwrap()
        .dead
        .into_iter()
        .partition(|dead| dead.id() == id.trim());
    (its.pop(), others)
}

/// An instance that is not ours.
struct Foreign(std::path::PathBuf);

impl Foreign {
    fn make(tracefs: &Tracefs, name: &str) -> Self {
        let folder = tracefs.path("instances").join(name);
        fs::create_dir(&folder).unwrap();
        Self(folder)
    }
}

impl Drop for Foreign {
    fn drop(&mut self) {
        fs::remove_dir(&self.0).unwrap();
    }
}
