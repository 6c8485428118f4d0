// SPDX-License-Identifier: MIT OR Apache-2.0
//! Asks the kernel whether it takes a probe at an address, by making one and removing it again. Only the kernel knows where its instructions begin
//! now, and which of its functions must not be probed.

use std::io;
use std::process;

use piste_reason::reason;

use super::define::complaint;
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
        reason: refusal(complaint(tracefs, &event).as_deref(), &error),
    })?;
    List::Kernel
        .add(tracefs, &format!("-:{event}"))
        .map_err(|error| ProbeError::Place {
            place: place.clone(),
            reason: format!("a trial probe there cannot be removed: {}", reason(&error)),
        })
}

/// What people are told when the kernel refuses a probe with an error, and complains of it in its log.
fn refusal(complaint: Option<&str>, error: &io::Error) -> String {
    match complaint {
        Some(complaint) if complaint.contains("instruction boundary") => "no instruction begins there".into(),
        Some(complaint) => format!(
            "the kernel allows no probe there ({complaint}); it protects functions that probes themselves need, and code that runs before the \
             kernel can handle a trap"
        ),
        None => format!("the kernel refuses a probe there: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_refuses_has_a_reason() {
        let error = io::Error::other("cannot write");
        let of = |complaint| refusal(complaint, &error);
        assert_eq!(
            of(Some("Probe point is not an instruction boundary")),
            "no instruction begins there"
        );
        assert!(of(Some("Failed to register probe event")).starts_with("the kernel allows no probe there (Failed"));
        assert_eq!(of(None), "the kernel refuses a probe there: cannot write");
    }
}
