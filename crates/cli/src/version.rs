// SPDX-License-Identifier: MIT OR Apache-2.0
//! `piste version`: of this command, and of the pisted that runs, if one does.

use piste_control::interface::VarlinkClientInterface;
use piste_control::{Client, Error, Places};
use serde_json::json;

use crate::failure::Failure;
use crate::quantity::duration;
use crate::screen::{show, show_json};

const VERSION: &str = env!("CARGO_PKG_VERSION");
/// Of the source that this was built from, where the build knows it.
const COMMIT: Option<&str> = option_env!("PISTE_COMMIT");

/// `piste version`
pub(crate) fn version(json: bool) -> Result<(), Failure> {
    let pisted = match Client::connect(&Places::for_commands()?) {
        Ok(mut client) => Some(client.calls().version().call()?),
        Err(Error::NoDaemon { .. }) => None,
        Err(error) => return Err(error.into()),
    };
    if json {
        return show_json(&json!({ "version": VERSION, "commit": COMMIT, "pisted": pisted }));
    }
    let mut text = format!("piste  {}\n", own_version());
    text += &match pisted {
        Some(pisted) => format!(
            "pisted {}, pid {}, up {}, contract {}, clock {}, kernel {}, run folder {}\n",
            with_commit(&pisted.version, &pisted.commit),
            pisted.pid,
            duration(pisted.uptime_ns),
            pisted.abi,
            pisted.clock,
            pisted.kernel,
            pisted.run_folder
        ),
        None => "pisted is not running\n".into(),
    };
    show(&text)
}

/// `0.1.0 (1234abcd)`, of this command.
pub(crate) fn own_version() -> String {
    with_commit(VERSION, COMMIT.unwrap_or_default())
}

fn with_commit(version: &str, commit: &str) -> String {
    if commit.is_empty() {
        version.into()
    } else {
        format!("{version} ({commit})")
    }
}
