// SPDX-License-Identifier: MIT OR Apache-2.0
//! Block devices, network interfaces and interrupts, from /sys.

use super::event::{Block, Event, Interface, Interrupt};
use super::reading::{Reading, names_in, numbers_in};

pub(super) fn collect(tell: &mut dyn FnMut(&Event)) {
    let mut reading = Reading::new();
    for name in names_in("/sys/class/block") {
        let number = reading.line(format!("/sys/class/block/{name}/dev"));
        if let Some(device) = number.and_then(|number| device_number(&number)) {
            // What a name cannot hold in /sys is there as an exclamation mark: `cciss!c0d0`.
            let name = name.replace('!', "/");
            tell(&Event::Block(Block { device, name }));
        }
    }
    for name in names_in("/sys/class/net") {
        let index = reading.line(format!("/sys/class/net/{name}/ifindex"));
        // A file that is no interface (bonding_masters) has no number.
        if let Some(index) = index.and_then(|index| index.parse().ok()) {
            let address = reading
                .line(format!("/sys/class/net/{name}/address"))
                .unwrap_or_default();
            tell(&Event::Interface(Interface { name, index, address }));
        }
    }
    for irq in numbers_in("/sys/kernel/irq") {
        interrupt(irq as u32, &mut reading, tell);
    }
}

/// One event for each handler of the line.
fn interrupt(irq: u32, reading: &mut Reading, tell: &mut dyn FnMut(&Event)) {
    let mut line = |name: &str| {
        reading
            .line(format!("/sys/kernel/irq/{irq}/{name}"))
            .unwrap_or_default()
    };
    let (actions, controller) = (line("actions"), line("chip_name"));
    for action in actions.split(',').filter(|action| !action.is_empty()) {
        tell(&Event::Interrupt(Interrupt {
            irq,
            controller: controller.clone(),
            action: action.to_owned(),
        }));
    }
}

/// `MAJOR:MINOR` as the kernel has it in one number.
fn device_number(text: &str) -> Option<u32> {
    let (major, minor) = text.split_once(':')?;
    let (major, minor): (u32, u32) = (major.parse().ok()?, minor.parse().ok()?);
    Some(major << 20 | minor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn device_number_is_the_kernels() {
        assert_eq!(device_number("8:1"), Some(0x0080_0001));
        assert_eq!(device_number("259:0"), Some(259 << 20));
        assert_eq!(device_number("8"), None);
    }
}
