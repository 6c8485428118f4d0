// SPDX-License-Identifier: MIT OR Apache-2.0
//! `piste --help`: the commands in groups. clap lists all commands under one heading, so its help template contains the list that is made
//! here, with clap's own one-line descriptions.

use clap::Command;

use crate::screen::{STRONG, styled};

/// Each command in its group, in the order in which `piste --help` lists them.
const GROUPS: [(&str, &[&str]); 6] = [
    ("Record", &["record", "strace", "list"]),
    (
        "Sessions (record on demand)",
        &[
            "create",
            "set-session",
            "enable-channel",
            "add-context",
            "disable-channel",
            "enable-event",
            "disable-event",
            "track",
            "untrack",
            "start",
            "stop",
            "status",
            "snapshot",
            "rotate",
            "regenerate",
            "destroy",
        ],
    ),
    (
        "Triggers (act on events as they happen)",
        &["add-trigger", "list-triggers", "remove-trigger", "listen"],
    ),
    (
        "Read and analyse traces",
        &[
            "top", "web", "view", "info", "stats", "insights", "report", "analyze", "diff", "query", "trim", "import",
            "export",
        ],
    ),
    ("Measure this machine", &["latency", "bench", "calibrate"]),
    ("System", &["doctor", "version", "completions"]),
];

/// The command line with a help that lists the commands in groups.
pub(super) fn grouped(command: Command) -> Command {
    let list = command_list(&command);
    command.help_template(format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{list}{}\n{{options}}{{after-help}}",
        styled(STRONG, "Options:")
    ))
}

fn command_list(command: &Command) -> String {
    let names = GROUPS.iter().flat_map(|(_, names)| *names);
    let width = names.map(|name| name.len()).max().unwrap_or_default();
    let mut list = String::new();
    for (heading, names) in GROUPS {
        list += &styled(STRONG, format_args!("{heading}:"));
        list.push('\n');
        for name in names {
            let about = command.find_subcommand(name).and_then(Command::get_about);
            let about = about.map(ToString::to_string).unwrap_or_default();
            list += &format!("  {}  {about}\n", styled(STRONG, format_args!("{name:width$}")));
        }
        list.push('\n');
    }
    list
}

#[cfg(test)]
mod tests {
    use anstream::adapter::strip_str;
    use clap::CommandFactory;

    use super::*;
    use crate::arguments::Arguments;

    #[test]
    fn each_visible_command_is_in_one_group() {
        let command = Arguments::command();
        let visible = command.get_subcommands().filter(|command| !command.is_hide_set());
        let mut visible: Vec<&str> = visible.map(Command::get_name).collect();
        let mut listed: Vec<&str> = GROUPS.iter().flat_map(|(_, names)| *names).copied().collect();
        visible.sort_unstable();
        listed.sort_unstable();
        assert_eq!(listed, visible);
    }

    #[test]
    fn each_command_takes_one_line_of_a_terminal_of_80_columns() {
        let list = strip_str(&command_list(&Arguments::command())).to_string();
        for line in list.lines() {
            assert!(line.chars().count() <= 80, "{line}");
            assert!(
                line.is_empty() || line.ends_with(':') || line.len() > 30,
                "no description: {line}"
            );
            // The template would take it as the name of a part.
            assert!(!line.contains('{'), "{line}");
        }
    }
}
