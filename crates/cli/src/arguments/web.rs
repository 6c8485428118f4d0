// SPDX-License-Identifier: MIT OR Apache-2.0
//! The options of `piste web`.

use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;

use clap::{Args, ValueHint};

/// Show traces in the browser, with insights and a timeline
///
/// Serves a viewer for the browser on this machine until you press Ctrl-C, and prints its address. The address contains a random token: anyone who
/// knows the address can read the traces. Without TRACE, shows the recordings in ~/piste-traces. The first time that a trace is opened, its timeline
/// is stored in the trace folder as `.piste-timeline`, so that the trace opens at once the next time. The trace of a running session is shown while
/// it is recorded.
#[derive(Args)]
#[command(after_help = "Exit status: 0 after Ctrl-C, or 1 if the server cannot start.")]
pub(crate) struct Web {
    /// Folders to search for traces, including subfolders, each with the traces of one machine; or names of running sessions
    #[arg(value_name = "TRACE", value_hint = ValueHint::AnyPath)]
    pub(crate) paths: Vec<PathBuf>,
    /// Listen on this port [default: any free port]
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    pub(crate) port: u16,
    /// Listen on this address. With any other than the default, other machines can connect, and connections are not encrypted; SSH port forwarding is
    /// safer
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1")]
    pub(crate) listen: IpAddr,
    /// Open the viewer in the default browser
    #[arg(long)]
    pub(crate) open: bool,
}

impl Web {
    /// As `piste web --open TRACE`.
    pub(crate) fn opening(trace: PathBuf) -> Web {
        Web {
            paths: vec![trace],
            port: 0,
            listen: IpAddr::V4(Ipv4Addr::LOCALHOST),
            open: true,
        }
    }
}
