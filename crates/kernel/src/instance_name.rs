// SPDX-License-Identifier: MIT OR Apache-2.0
//! Names of tracefs instances: `piste-OWNER-SESSION-CHANNEL`. All that Piste knows of an instance that it meets again is in there.

use std::io;

const PREFIX: &str = "piste-";
/// Of a file name.
const NAME_BYTES_MAX: usize = 255;
pub(crate) const OWNER_DIGITS: usize = 16;

/// What a name says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct InstanceName<'a> {
    pub(crate) owner: &'a str,
    pub(crate) session: u64,
    pub(crate) channel: &'a str,
}

impl<'a> InstanceName<'a> {
    /// What the name of an instance of ours says; none for the name of somebody else's.
    pub(crate) fn parse(name: &'a str) -> Option<Self> {
        let (owner, rest) = name.strip_prefix(PREFIX)?.split_once('-')?;
        let (session, channel) = rest.split_once('-')?;
        let named = Self {
            owner,
            session: session.parse().ok()?,
            channel,
        };
        // A name that we would write in another way is not ours.
        (is_owner_id(owner) && named.text().is_ok_and(|text| text == name)).then_some(named)
    }

    /// What the names of an owner's instances begin with.
    pub(crate) fn prefix(owner: &str) -> String {
        format!("{PREFIX}{owner}-")
    }

    /// The name.
    ///
    /// # Errors
    /// No file can have it.
    pub(crate) fn text(&self) -> io::Result<String> {
        let name = format!("{}{}-{}", Self::prefix(self.owner), self.session, self.channel);
        if self.channel.is_empty() || name.contains(['/', '\0', '\n']) || name.len() > NAME_BYTES_MAX {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!(
                    "channel {:?} of session {}: the name of a kernel channel must have 1 to {} bytes and no slash",
                    self.channel,
                    self.session,
                    NAME_BYTES_MAX - (name.len() - self.channel.len())
                ),
            ));
        }
        Ok(name)
    }
}

pub(crate) fn is_owner_id(text: &str) -> bool {
    text.len() == OWNER_DIGITS && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_says_whose_it_is() {
        let named = InstanceName {
            owner: "0123456789abcdef",
            session: 7,
            channel: "my-channel",
        };
        let name = named.text().unwrap();
        assert_eq!(name, "piste-0123456789abcdef-7-my-channel");
        assert_eq!(InstanceName::parse(&name), Some(named));
    }

    #[test]
    fn names_of_others_are_left_alone() {
        for name in [
            "piste",
            "piste-",
            "piste-0123456789abcdef",
            "piste-0123456789abcdef-7",
            "piste-0123456789abcdef-7-",
            "piste-0123456789abcdef-07-default",
            "piste-0123456789abcdef-+7-default",
            "piste-0123456789abcde-7-default",
            "piste-0123456789ABCDEF-7-default",
            "xpiste-0123456789abcdef-7-default",
            "trace-cmd",
        ] {
            assert_eq!(InstanceName::parse(name), None, "{name}");
        }
    }

    #[test]
    fn no_channel_leaves_the_folder() {
        for channel in ["", "a/b", "../x", "a\nb", &"x".repeat(240)] {
            let named = InstanceName {
                owner: "0123456789abcdef",
                session: 1,
                channel,
            };
            assert_eq!(
                named.text().unwrap_err().kind(),
                io::ErrorKind::InvalidInput,
                "{channel:?}"
            );
        }
    }
}
