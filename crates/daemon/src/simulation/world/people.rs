// SPDX-License-Identifier: MIT OR Apache-2.0
//! The people of a simulation: dice decide what they ask.

use super::super::contract::{Command, Filter, SessionCommand};
use super::{KINDS, World};

const SESSIONS_MAX: usize = 3;

impl World {
    /// Somebody asks for something.
    pub(super) fn ask(&mut self) {
        let sessions = self.contract.open_sessions();
        let session = self.dice.choice(&sessions).copied();
        let command = match (session, self.dice.u32(..40)) {
            (None, _) | (_, 0..2) if sessions.len() < SESSIONS_MAX => {
                self.last_session += 1;
                let name = format!("s{}", self.last_session);
                let output = self.folder.path().join(&name);
                Command::Create { name, output }
            }
            (Some(session), number) => Command::OfSession(
                session,
                match number {
                    0..10 => SessionCommand::EnableEvent(self.pattern(), self.filter()),
                    10..15 => SessionCommand::DisableEvent(Some(self.pattern())),
                    15 => SessionCommand::DisableEvent(None),
                    16 => SessionCommand::DisableChannel,
                    17..20 => SessionCommand::EnableChannel,
                    20..29 => SessionCommand::Start,
                    29..33 => SessionCommand::Stop,
                    33 => SessionCommand::Destroy,
                    34 => SessionCommand::Flush,
                    35..38 => SessionCommand::Rotate,
                    _ => SessionCommand::Report,
                },
            ),
            _ => return,
        };
        self.command(&command);
    }

    fn pattern(&mut self) -> String {
        let patterns = ["shop:*", "shop:order", "shop:pay", "shop:ship", "*"];
        (*self.dice.choice(&patterns).expect("there are some")).to_owned()
    }

    fn filter(&mut self) -> Filter {
        match self.dice.u64(..2 * KINDS) {
            kind @ ..KINDS => Some(kind),
            _ => None,
        }
    }

    /// Has pisted obey, if there is one.
    pub(super) fn command(&mut self, command: &Command) {
        let now = self.instant();
        let Some(pisted) = &mut self.pisted else { return };
        self.last_command += 1;
        let id = self.last_command;
        let obeyed = pisted.obey(id, command, now);
        let what = match obeyed {
            Ok(()) => {
                self.contract.asked(id, command);
                if let Command::OfSession(session, SessionCommand::Flush) = command
                    && self.contract.sessions[session].is_on
                {
                    self.flushes.insert(id, self.truth.committed_of(*session));
                }
                self.figures.commands += 1;
                format!("command {id}: {command:?}")
            }
            Err(refusal) => format!("refused: {command:?}: {refusal:?}"),
        };
        self.tell(&what);
        self.note_cut();
    }
}
