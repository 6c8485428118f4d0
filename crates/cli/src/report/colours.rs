// SPDX-License-Identifier: MIT OR Apache-2.0
//! Colours, as the viewer has them (viewer/src/colours.ts): of states by their names, which report.css defines, and of threads and other names.

use piste_timeline::Class;

/// So many colours there are for names: `n0` to `n11` in report.css.
pub(super) const NAMED: u32 = 12;

/// The class of report.css for a state, and what people read.
pub(super) const STATES: [(Class, &str, &str); 10] = [
    (Class::User, "user", "running in user space"),
    (Class::Kernel, "kernel", "running in the kernel"),
    (Class::Running, "running", "running"),
    (Class::Interrupted, "interrupted", "interrupted"),
    (Class::Runnable, "runnable", "waiting for a CPU"),
    (Class::Blocked, "blocked", "blocked"),
    (Class::Stopped, "stopped", "stopped"),
    (Class::Other, "other", "active"),
    (Class::Idle, "idle", "idle"),
    (Class::Unknown, "unknown", "unknown"),
];

/// The class of report.css for a state.
pub(super) fn style_of(class: Class) -> &'static str {
    STATES
        .iter()
        .find(|(known, ..)| *known == class)
        .map_or("unknown", |(_, style, _)| style)
}

/// What people read of a state.
pub(super) fn name_of(class: Class) -> &'static str {
    STATES
        .iter()
        .find(|(known, ..)| *known == class)
        .map_or("unknown", |(.., name)| name)
}

/// The number of the colour of a name: the same in every trace, and in the viewer. FNV-1a over what JavaScript calls characters.
pub(super) fn number_of(name: &str) -> u32 {
    let step = |hash: u32, unit: u16| (hash ^ u32::from(unit)).wrapping_mul(0x0100_0193);
    name.encode_utf16().fold(0x811c_9dc5, step) % NAMED
}

#[cfg(test)]
mod tests {
    use super::super::page::STYLE;
    use super::*;

    /// `[230, 159, 0]` behind `name:` or at the begin of a text, as report.css writes it.
    fn colour(text: &str) -> String {
        let (_, rest) = text.split_once('[').expect("a colour");
        let (numbers, _) = rest.split_once(']').expect("its end");
        format!("rgb({})", numbers.replace(',', ""))
    }

    fn between<'a>(text: &'a str, begin: &str, end: &str) -> &'a str {
        let (_, rest) = text.split_once(begin).unwrap_or_else(|| panic!("no {begin}"));
        rest.split_once(end).unwrap_or_else(|| panic!("no {end}")).0
    }

    #[test]
    fn colours_are_those_of_the_viewer() {
        let viewer = include_str!("../../../../viewer/src/colours.ts");
        let dark_style = between(STYLE, "@media screen and (prefers-color-scheme: dark)", "\n}\n");
        let light_style = between(STYLE, ":root {", "}");
        let shared = between(viewer, "const SHARED = {", "}");
        for (theme, style) in [("LIGHT", light_style), ("DARK", dark_style)] {
            let own = between(viewer, &format!("export const {theme}: Theme = {{"), "\n};");
            let own = between(own, "classes: {", "}");
            for (_, name, _) in STATES {
                let colours = format!("{own}{shared}");
                let (_, rest) = colours
                    .split_once(&format!("{name}: "))
                    .unwrap_or_else(|| panic!("no {name}"));
                let wanted = format!("--{name}: {};", colour(rest));
                // What both themes share is defined once.
                assert!(
                    style.contains(&wanted) || shared.contains(&format!("{name}: ")) && light_style.contains(&wanted),
                    "{theme}: {wanted}"
                );
            }
        }
        let named = between(viewer, "const NAMED: readonly Rgb[] = [", "];");
        let named: Vec<&str> = named.lines().filter(|line| line.contains('[')).collect();
        assert_eq!(named.len(), NAMED as usize);
        for (number, line) in named.iter().enumerate() {
            let wanted = format!(".n{number} {{ fill: {}; }}", colour(line));
            assert!(STYLE.contains(&wanted), "{wanted}");
        }
    }

    /// viewer/tests/logic.mjs has the same.
    #[test]
    fn a_name_has_the_colour_that_it_has_in_the_viewer() {
        assert_eq!(
            ["", "sh", "postgres", "kworker/0:1", "é漢😀"].map(number_of),
            [1, 2, 10, 2, 3]
        );
    }
}
