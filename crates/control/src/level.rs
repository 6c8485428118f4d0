// SPDX-License-Identifier: MIT OR Apache-2.0
//! Event levels: the interface's names and the numbers of include/piste/abi/event.h.

use crate::interface::Level;

/// Every level with its name as people write it, from the gravest; the index is the number.
pub const LEVELS: [(Level, &str); 15] = [
    (Level::emerg, "emerg"),
    (Level::alert, "alert"),
    (Level::crit, "crit"),
    (Level::err, "err"),
    (Level::warning, "warning"),
    (Level::notice, "notice"),
    (Level::info, "info"),
    (Level::debug_system, "debug_system"),
    (Level::debug_program, "debug_program"),
    (Level::debug_process, "debug_process"),
    (Level::debug_module, "debug_module"),
    (Level::debug_unit, "debug_unit"),
    (Level::debug_function, "debug_function"),
    (Level::debug_line, "debug_line"),
    (Level::debug, "debug"),
];

impl Level {
    /// The level with this number, from 0 to 14.
    pub fn from_number(number: u8) -> Option<Level> {
        LEVELS.get(usize::from(number)).map(|(level, _)| level.clone())
    }

    /// The level's number; a smaller one is graver.
    pub fn number(&self) -> u8 {
        self.clone() as u8
    }

    /// The level with this name: any case, `-` for `_`, and `TRACE_` or `PISTE_LEVEL_` before it are understood.
    pub fn from_name(name: &str) -> Option<Level> {
        let name = name.to_ascii_lowercase().replace('-', "_");
        let name = name
            .strip_prefix("trace_")
            .or(name.strip_prefix("piste_level_"))
            .unwrap_or(&name);
        LEVELS
            .iter()
            .find(|(_, known)| *known == name)
            .map(|(level, _)| level.clone())
    }

    /// The level's name.
    pub fn name(&self) -> &'static str {
        LEVELS[usize::from(self.number())].1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_names_are_those_of_the_table() {
        for (number, (level, name)) in LEVELS.iter().enumerate() {
            assert_eq!(usize::from(level.number()), number);
            assert_eq!(Level::from_number(level.number()).as_ref(), Some(level));
            assert_eq!(Level::from_name(name).as_ref(), Some(level));
            assert_eq!(level.name(), *name);
            assert_eq!(serde_json::to_value(level).unwrap(), *name);
        }
        assert_eq!(Level::from_number(15), None);
    }

    #[test]
    fn other_spellings_of_a_name_are_understood() {
        assert_eq!(Level::from_name("TRACE_DEBUG_LINE"), Some(Level::debug_line));
        assert_eq!(Level::from_name("PISTE_LEVEL_WARNING"), Some(Level::warning));
        assert_eq!(Level::from_name("debug-unit"), Some(Level::debug_unit));
        assert_eq!(Level::from_name("loud"), None);
    }
}
