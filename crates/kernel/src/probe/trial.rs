// SPDX-License-Identifier: MIT OR Apache-2.0
//! Asks the kernel whether it takes a probe at an address, by making one and removing it again. Only the kernel knows where its instructions begin
//! now, and which of its functions must not be probed.

use std::io;
use std::process;

use piste_reason::reason;
use rustix::io::Errno;

use super::error::ProbeError;
use super::kernel_place;
use super::listed::List;
use crate::spec::EventSource;
use crate::tracefs::Tracefs;

/// Group of probes that are removed at once.
const GROUP: &str = "piste_trial";

/// Whether the kernel takes a probe that is at an address. All other sources are always well.
///
/// # Errors
/// What the kernel says of the place.
pub fn try_address(tracefs: &Tracefs, source: &EventSource) -> Result<(), ProbeError> {
    let EventSource::Kprobe { place, is_return, .. } = source else {
        return Ok(());
    };
    if !kernel_place::is_address(place) {
        return Ok(());
    }
    let address = kernel_place::checked(place, *is_return)?;
    let kind = if *is_return { 'r' } else { 'p' };
    let event = format!("{GROUP}/at_{}", process::id());
    let made = List::Kernel.add(tracefs, &format!("{kind}:{event} {address}"));
    made.map_err(|error| ProbeError::Place {
        place: place.clone(),
        reason: refusal(&error),
    })?;
    List::Kernel
        .add(tracefs, &format!("-:{event}"))
        .map_err(|error| ProbeError::Place {
            place: place.clone(),
            reason: format!("a trial probe there cannot be removed: {}", reason(&error)),
        })
}

fn refusal(error: &io::Error) -> String {
    match Errno::from_io_error(error) {
        Some(Errno::ILSEQ) => "no instruction begins there".into(),
        Some(Errno::INVAL | Errno::NOENT) => {
            "the kernel allows no probe there: it is not code, or belongs to a function that must not be probed".into()
        }
        _ => format!("the kernel refuses a probe there: {}", reason(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_refuses_has_a_reason() {
        let of = |errno: Errno| refusal(&io::Error::from_raw_os_error(errno.raw_os_error()));
        assert_eq!(of(Errno::ILSEQ), "no instruction begins there");
        assert!(of(Errno::INVAL).starts_with("the kernel allows no probe there"));
        assert!(of(Errno::NOMEM).starts_with("the kernel refuses a probe there: "));
    }
}
