// SPDX-License-Identifier: MIT OR Apache-2.0
//! Names of probes in tracefs: they tell whose they are, and no two definitions have the same.
//!
//! A group is `piste_OWNER_SESSION_CHANNEL`, an event `NAME_HASH_KEY`. The key is a hash of the whole definition: a restarted consumer
//! that wants the same probe finds it, and one that wants another one never gets the same name. That matters, because the kernel takes
//! a second definition of a name as one more place of the same event. What is before the key tells names in the trace apart.

use super::error::ProbeError;

/// The kernel's limit for a group's and an event's name, without the zero at the end.
const NAME_BYTES_MAX: usize = 63;
/// Of an event's name in the trace.
const TRACE_NAME_BYTES_MAX: usize = 255;

/// The group of a channel's probes.
pub(super) fn group(owner_id: &str, session: u64, channel: &str) -> String {
    let mut group = format!("piste_{owner_id}_{session}_");
    let word = word(channel);
    if word == channel && group.len() + word.len() <= NAME_BYTES_MAX {
        group.push_str(&word);
        return group;
    }
    // 17: an underline and the hash, which tells apart what looks alike as a word.
    let room = NAME_BYTES_MAX.saturating_sub(group.len() + 17);
    group.push_str(&word[..word.len().min(room)]);
    group.push_str(&format!("_{:016x}", hash(&[channel])));
    group
}

/// Whose group this is; absent when it is not ours.
pub(super) fn owner_of(group: &str) -> Option<&str> {
    let (owner, _) = group.strip_prefix("piste_")?.split_once('_')?;
    let is_ours = owner.len() == 16 && owner.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    is_ours.then_some(owner)
}

/// The name in tracefs of an event that is `trace_name` in the trace and defined by `definition`.
pub(super) fn event(trace_name: &str, definition: &[&str]) -> String {
    format!("{}_{:016x}", with_trace_name(trace_name), hash(definition))
}

/// What the names in tracefs of all events begin with that are `trace_name` in the trace.
pub(super) fn with_trace_name(trace_name: &str) -> String {
    let word = word(trace_name);
    // 26: two underlines, the short hash of the name and the key.
    let word = &word[..word.len().min(NAME_BYTES_MAX - 26)];
    let name_hash = hash(&[trace_name]) >> 32;
    format!("{word}_{name_hash:08x}")
}

/// What events of the same name in the trace have in common.
pub(super) fn of_trace_name(event: &str) -> &str {
    event.rsplit_once('_').map_or(event, |(name, _key)| name)
}

/// A name in the trace for an event of which only the name in tracefs is known: the same but for characters that tracefs does not allow.
pub(super) fn trace_name(event: &str) -> &str {
    let name = of_trace_name(event);
    name.rsplit_once('_').map_or(name, |(name, _hash)| name)
}

/// Refuses what can be no event's name in a trace.
pub(super) fn check(trace_name: &str) -> Result<(), ProbeError> {
    let refused = |reason: String| {
        Err(ProbeError::Name {
            name: trace_name.into(),
            reason,
        })
    };
    if trace_name.is_empty() {
        return refused("give the event a name".into());
    }
    if trace_name.len() > TRACE_NAME_BYTES_MAX {
        return refused(format!(
            "it has {} bytes; at most {TRACE_NAME_BYTES_MAX} are allowed",
            trace_name.len()
        ));
    }
    if trace_name.contains(|character: char| character.is_control() || matches!(character, '"' | '\\')) {
        return refused("control characters, quotes and backslashes are not allowed".into());
    }
    Ok(())
}

/// What tracefs allows in names: letters, digits and underlines.
fn word(text: &str) -> String {
    let mut word: String = text
        .chars()
        .map(|character| {
            if character.is_ascii_alphanumeric() {
                character
            } else {
                '_'
            }
        })
        .collect();
    if word.is_empty() || word.starts_with(|first: char| first.is_ascii_digit()) {
        word.insert(0, '_');
    }
    word
}

/// FNV-1a: the same in every version of Piste, unlike the standard library's.
fn hash(parts: &[&str]) -> u64 {
    let bytes = parts.iter().flat_map(|part| part.bytes().chain([0]));
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWNER: &str = "ffffffffffffffff";

    #[test]
    fn groups_tell_their_owner_and_fit() {
        assert_eq!(
            group("0000000000000abc", 7, "default"),
            "piste_0000000000000abc_7_default"
        );
        let long = "a".repeat(200);
        for channel in ["default", "a b", "a-b", "", "7", &long] {
            let group = group(OWNER, u64::MAX, channel);
            assert!(group.len() <= NAME_BYTES_MAX, "{group}");
            assert_eq!(owner_of(&group), Some(OWNER), "{group}");
        }
    }

    #[test]
    fn channels_that_look_alike_have_groups_of_their_own() {
        assert_ne!(group(OWNER, 1, "a b"), group(OWNER, 1, "a-b"));
        assert_ne!(group(OWNER, 1, "a b"), group(OWNER, 1, "a_b"));
    }

    #[test]
    fn groups_of_others_are_nobodys() {
        for group in [
            "uprobes",
            "piste_",
            "piste_12_3_x",
            "piste_000000000000zabc_7_d",
            "piste_0000000000000ABC_7_d",
        ] {
            assert_eq!(owner_of(group), None, "{group}");
        }
    }

    #[test]
    fn an_event_is_named_by_all_of_its_definition() {
        let name = event("shop:order", &["p", "8", "0x10", "arg1=%di"]);
        assert_eq!(trace_name(&name), "shop_order");
        assert_eq!(of_trace_name(&name), with_trace_name("shop:order"));
        assert_eq!(name, event("shop:order", &["p", "8", "0x10", "arg1=%di"]));
        assert_ne!(name, event("shop:order", &["p", "8", "0x10arg1=%di"]));
        assert_eq!(of_trace_name(&name), of_trace_name(&event("shop:order", &["p", "9"])));
        assert_ne!(of_trace_name(&name), of_trace_name(&event("shop_order", &["p", "9"])));
        assert_eq!(event(&"x".repeat(300), &[]).len(), NAME_BYTES_MAX);
    }
}
