// SPDX-License-Identifier: MIT OR Apache-2.0
//! What people ask: sessions, channels, rules, start and stop. Each either is refused and changes nothing, or is done.
//!
//! Names come in, checked here; the meaning of a missing session name too. Folders are made by the caller, before.

use std::path::PathBuf;

use super::catching_up::News;
use super::channel::{Channel, ChannelSettings};
use super::machine::{Machine, Pending};
use super::refusal::{Refusal, nearest};
use super::rules::{Levels, PATTERNS, Rule, RuleLimit, TESTS, check_pattern};
use super::sessions::Change;
use super::settings::{ChannelRequest, check_name, check_same, settle};
use super::tracing_session::{Moment, Session, SessionIdentity, SessionState};
use crate::link::{Domain, RequestId, SessionId, ToConsumer};
use crate::person::Person;
use crate::program_filter::RuleFilter;
use crate::shares::Holdings;

/// The channel of events that were enabled without naming one.
pub const DEFAULT_CHANNEL: &str = "default";

/// Channels that a session can have of programs. Each is rings for every CPU, in every program.
pub const CHANNEL_COUNT_MAX: usize = 32;

/// Sessions that there can be.
pub const SESSION_COUNT_MAX: usize = 256;

/// The session that somebody means.
#[derive(Debug, Clone)]
pub struct Asked {
    /// Its name; without one it is the current one.
    pub session: Option<String>,
    /// Who asks.
    pub by: Person,
}

/// Rules that are wanted: one for each pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs, reason = "as in Rule")]
pub struct RulesRequest {
    pub patterns: Vec<String>,
    pub excluded: Vec<String>,
    pub levels: Levels,
    pub filter: Option<String>,
}

/// How the start of a session goes on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Starting {
    /// The kernel consumer answers; then [`Machine::start_programs`] follows.
    Kernel(RequestId),
    /// There is no kernel channel: the programs were told.
    Programs(Pending),
}

impl Machine {
    /// The session that a command means.
    ///
    /// # Errors
    /// There is none of that name, or no current one.
    pub fn find_session(&self, asked: &Asked) -> Result<SessionId, Refusal> {
        let Some(name) = &asked.session else {
            return self.sessions.current(&asked.by).ok_or(Refusal::NoCurrentSession);
        };
        let found = self
            .named_sessions()
            .find(|(_, session)| session.identity.name == *name);
        found.map(|(id, _)| id).ok_or_else(|| Refusal::NoSession {
            name: name.to_owned(),
            nearest: nearest(name, self.named_sessions().map(|(_, session)| &*session.identity.name)),
        })
    }

    /// The same, also of one that is being destroyed: it keeps its name until its trace is complete.
    ///
    /// # Errors
    /// As of [`Machine::find_session`].
    pub fn find_session_or_its_end(&self, asked: &Asked) -> Result<SessionId, Refusal> {
        self.find_session(asked).or_else(|refusal| {
            let is_meant = |session: &Session| Some(&session.identity.name) == asked.session.as_ref();
            let mut sessions = self.sessions.iter();
            let found = sessions.find(|(_, session)| is_meant(session));
            found.map(|(id, _)| id).ok_or(refusal)
        })
    }

    /// The session that a command means which changes it: the owner may, and root.
    ///
    /// # Errors
    /// As of [`Machine::find_session`], or it is somebody else's.
    pub fn find_own_session(&self, asked: &Asked) -> Result<SessionId, Refusal> {
        let session = self.find_session(asked)?;
        let identity = &self.session(session).identity;
        if asked.by.uid().is_none() || asked.by.uid() == identity.owner.uid() {
            return Ok(session);
        }
        let owner = identity.owner.uid();
        Err(Refusal::NoPermission {
            what: format!("changing session {:?}", identity.name),
            mend: format!(
                "it belongs to {}, and only its owner and root can change it; create your own with `piste create`",
                owner.map_or("root".into(), |uid| format!("user {uid}"))
            ),
        })
    }

    /// Whether a session can be created under a name.
    ///
    /// # Errors
    /// The name is taken, or cannot be one.
    pub fn check_session_name(&self, name: &str) -> Result<(), Refusal> {
        check_name("session name", name)?;
        // A session that is being destroyed keeps its name until it is gone.
        if self.sessions.iter().any(|(_, session)| session.identity.name == name) {
            return Err(Refusal::SessionExists { name: name.to_owned() });
        }
        Ok(())
    }

    /// Creates a session.
    ///
    /// # Errors
    /// See [`Machine::check_session_name`].
    pub fn create_session(&mut self, identity: SessionIdentity) -> Result<SessionId, Refusal> {
        self.check_session_name(&identity.name)?;
        self.check_session_count(&identity.owner)?;
        Ok(self.open_session(identity))
    }

    pub(super) fn open_session(&mut self, identity: SessionIdentity) -> SessionId {
        let session = self.sessions.next_session();
        self.record(Change::SessionCreated { session, identity });
        self.open_at_consumer(session);
        session
    }

    pub(super) fn check_session_count(&self, owner: &Person) -> Result<(), Refusal> {
        let mut sessions = Holdings::default();
        for (_, session) in self.sessions.iter() {
            sessions.add(session.identity.owner.uid().unwrap_or(0), 1);
        }
        let (users, user) = (self.host.users, owner.uid().unwrap_or(0));
        if users.permit(&sessions, user, 1, SESSION_COUNT_MAX) {
            return Ok(());
        }
        Err(Refusal::NoPermission {
            what: "another session".into(),
            mend: format!(
                "at most {SESSION_COUNT_MAX} sessions and triggers can exist, {} of one user; destroy or remove one first",
                users.share(user, SESSION_COUNT_MAX)
            ),
        })
    }

    /// Makes a session the current one of who asks.
    ///
    /// # Errors
    /// There is none of that name.
    pub fn set_current(&mut self, asked: &Asked) -> Result<(), Refusal> {
        let session = self.find_session(asked)?;
        let user = asked.by.uid();
        self.record(Change::CurrentSet { session, user });
        Ok(())
    }

    /// Makes a channel, or enables one that exists as it is wanted. Its settings, and what to wait for.
    ///
    /// # Errors
    /// It exists otherwise, or cannot be as it is wanted.
    pub fn enable_channel(
        &mut self,
        session: SessionId,
        wanted: &ChannelRequest,
    ) -> Result<(ChannelSettings, Pending), Refusal> {
        if let Ok(existing) = self.find_channel(session, &wanted.name) {
            let settings = self.channel(session, existing).settings.clone();
            check_same(&settings, wanted, &self.session(session).identity.name)?;
            return Ok((settings, self.set_enabled(session, existing, true)));
        }
        let state = self.session(session);
        check_name("channel name", &wanted.name)?;
        if state.channels.len() >= CHANNEL_COUNT_MAX {
            return Err(Refusal::TooManyChannels {
                session: state.identity.name.clone(),
                limit: CHANNEL_COUNT_MAX,
            });
        }
        let settings = settle(wanted, state.identity.snapshot, self.host)?;
        self.record(Change::ChannelAdded {
            session,
            settings: settings.clone(),
        });
        let channel = self.session(session).channels.len() as u32 - 1;
        self.add_channel_at_consumer(session, channel);
        if channel == 0 && self.is_active(session) {
            self.start_at_consumer(session);
        }
        Ok((settings, Pending::default()))
    }

    /// Disables a channel: it records nothing until it is enabled again. Its settings, and what to wait for.
    ///
    /// # Errors
    /// There is none of that name.
    pub fn disable_channel(&mut self, session: SessionId, name: &str) -> Result<(ChannelSettings, Pending), Refusal> {
        let channel = self.find_channel(session, name)?;
        let pending = self.set_enabled(session, channel, false);
        Ok((self.channel(session, channel).settings.clone(), pending))
    }

    fn set_enabled(&mut self, session: SessionId, channel: u32, enabled: bool) -> Pending {
        let state = self.channel(session, channel);
        if state.enabled == enabled {
            return self.announce_again(session, channel);
        }
        let earlier = state.effective_rules().to_vec();
        self.record(Change::EnabledSet {
            session,
            domain: Domain::User,
            channel,
            enabled,
        });
        self.announce(session, News::Rules { channel, earlier }, None)
    }

    /// Adds a rule for each pattern, or enables it again, then with this filter. The channel's number, and what to wait for.
    ///
    /// # Errors
    /// No such channel, a pattern is wrong, or they are too many: no rule is added then.
    pub fn enable_event(
        &mut self,
        session: SessionId,
        channel: Option<&str>,
        wanted: &RulesRequest,
    ) -> Result<(u32, Pending), Refusal> {
        // Each rule has the exclusions for itself.
        PATTERNS.check(wanted.patterns.len().saturating_mul(1 + wanted.excluded.len()))?;
        wanted
            .patterns
            .iter()
            .chain(&wanted.excluded)
            .try_for_each(|pattern| check_pattern(pattern))?;
        if wanted.patterns.is_empty() {
            check_pattern("")?;
        }
        let filter = wanted.filter.as_deref().map(RuleFilter::parse).transpose();
        let filter = filter.map_err(|error| Refusal::InvalidFilter {
            filter: wanted.filter.clone().unwrap_or_default(),
            position: error.position,
            reason: error.reason,
        })?;
        let known = match channel {
            Some(name) => Some(self.find_channel(session, name)?),
            None => self.find_channel(session, DEFAULT_CHANNEL).ok(),
        };
        let mut rules = known.map_or_else(Vec::new, |known| self.channel(session, known).rules.clone());
        let earlier = [PATTERNS, TESTS].map(|limit| limit.count(&rules));
        for pattern in &wanted.patterns {
            let rule = Rule {
                pattern: pattern.clone(),
                excluded: wanted.excluded.clone(),
                levels: wanted.levels,
                filter: filter.clone(),
                enabled: true,
            };
            match rules.iter_mut().find(|known| known.matches_like(&rule)) {
                Some(known) => *known = rule,
                None => rules.push(rule),
            }
        }
        for (limit, earlier) in [PATTERNS, TESTS].iter().zip(earlier) {
            limit.check(limit.count(&rules))?;
            self.check_rules_of_user(session, limit, limit.count(&rules).saturating_sub(earlier))?;
        }
        let channel = match known {
            Some(known) => known,
            None => {
                let default = ChannelRequest {
                    name: DEFAULT_CHANNEL.into(),
                    ..ChannelRequest::default()
                };
                self.enable_channel(session, &default)?;
                self.session(session).channels.len() as u32 - 1
            }
        };
        Ok((channel, self.set_rules(session, channel, rules)))
    }

    /// Whether the rules of a session's owner may have so many more of something.
    fn check_rules_of_user(&self, session: SessionId, limit: &RuleLimit, more: usize) -> Result<(), Refusal> {
        let user_of = |session: &Session| session.identity.owner.uid().unwrap_or(0);
        let mut held = Holdings::default();
        for (_, session) in self.sessions.iter() {
            let rules = session.channels.iter().flat_map(|channel| &channel.rules);
            held.add(user_of(session), limit.count(rules));
        }
        let (users, user) = (self.host.users, user_of(self.session(session)));
        if users.permit(&held, user, more, limit.of_all) {
            return Ok(());
        }
        Err(Refusal::NoPermission {
            what: format!("adding {more} {}", limit.what),
            mend: format!(
                "the rules of all sessions can have {} {}, {}, and those of one user {}, of which {} are used; {}, or destroy a session",
                limit.of_all,
                limit.what,
                limit.counted,
                users.share(user, limit.of_all),
                held.of(user),
                limit.mend
            ),
        })
    }

    /// Disables the rules with these patterns; with none, all rules.
    ///
    /// # Errors
    /// No such channel or rule: no rule is disabled then.
    pub fn disable_event(
        &mut self,
        session: SessionId,
        channel: Option<&str>,
        patterns: &[String],
    ) -> Result<(u32, Pending), Refusal> {
        PATTERNS.check(patterns.len())?;
        let channel = self.find_channel(session, channel.unwrap_or(DEFAULT_CHANNEL))?;
        let mut rules = self.channel(session, channel).rules.clone();
        for pattern in patterns {
            let mut known = rules.iter_mut().filter(|rule| rule.pattern == *pattern).peekable();
            if known.peek().is_none() {
                let state = self.channel(session, channel);
                return Err(Refusal::NoRule {
                    pattern: pattern.clone(),
                    channel: state.settings.name.clone(),
                    nearest: nearest(pattern, state.rules.iter().map(|rule| &*rule.pattern)),
                });
            }
            known.for_each(|rule| rule.enabled = false);
        }
        if patterns.is_empty() {
            rules.iter_mut().for_each(|rule| rule.enabled = false);
        }
        Ok((channel, self.set_rules(session, channel, rules)))
    }

    fn set_rules(&mut self, session: SessionId, channel: u32, rules: Vec<Rule>) -> Pending {
        let state = self.channel(session, channel);
        if rules == state.rules {
            return self.announce_again(session, channel);
        }
        let earlier = state.effective_rules().to_vec();
        self.record(Change::RulesSet {
            session,
            channel,
            rules,
        });
        self.announce(session, News::Rules { channel, earlier }, None)
    }

    /// Starts recording.
    ///
    /// # Errors
    /// The session records already, or no enabled channel has an enabled rule.
    pub fn start(&mut self, session: SessionId, at: Moment) -> Result<Starting, Refusal> {
        let state = self.session(session);
        let name = || state.identity.name.clone();
        if state.state == SessionState::Active {
            return Err(Refusal::AlreadyActive { session: name() });
        }
        if !state.has_enabled_rule() {
            return Err(Refusal::NothingEnabled {
                session: name(),
                disabled_channels: state.disabled_channels(),
            });
        }
        self.record(Change::Started { session, at });
        Ok(match self.start_kernel(session) {
            Some(request) => Starting::Kernel(request),
            None => Starting::Programs(self.start_programs(session)),
        })
    }

    /// Lets the programs of a session record that was started.
    pub fn start_programs(&mut self, session: SessionId) -> Pending {
        // Before the ring sets, so that none of them is taken for one of a stopped session.
        let request = self.start_at_consumer(session);
        self.announce(session, News::Started, request)
    }

    /// Stops recording, of the programs first: [`Machine::stop_kernel`] is next. The consumer's answer has the totals.
    ///
    /// # Errors
    /// The session does not record.
    pub fn stop(&mut self, session: SessionId, at: Moment) -> Result<RequestId, Refusal> {
        let state = self.session(session);
        if state.state != SessionState::Active {
            return Err(Refusal::NotActive {
                session: state.identity.name.clone(),
            });
        }
        self.record(Change::Stopped { session, at });
        Ok(self.ask_consumer(|request| ToConsumer::Stop { session, request }))
    }

    /// Has everything written that was recorded by now. An answer for each domain that the session has; none of one that has not recorded yet.
    pub fn flush(&mut self, session: SessionId) -> Vec<RequestId> {
        let state = self.session(session);
        if state.state == SessionState::Inactive {
            return Vec::new();
        }
        let (is_of_programs, is_of_kernel) = (!state.channels.is_empty(), state.kernel.is_used());
        let question = |request| ToConsumer::Flush { session, request };
        let of_programs = is_of_programs.then(|| self.ask_consumer(question));
        let of_kernel = is_of_kernel.then(|| self.ask_kernel_consumer(question));
        of_programs.into_iter().chain(of_kernel).collect()
    }

    /// Begins to destroy a session. The consumer's answer has the totals; then follow [`Machine::close_kernel`] and
    /// [`Machine::session_ended`].
    pub fn destroy(&mut self, session: SessionId, at: Moment) -> RequestId {
        self.record(Change::Closing { session, at });
        self.ask_consumer(|request| ToConsumer::CloseSession { session, request })
    }

    /// Whether a snapshot can be taken, and its number, from 1.
    ///
    /// # Errors
    /// The session takes no snapshots, or never recorded.
    pub fn next_snapshot(&self, session: SessionId) -> Result<u64, Refusal> {
        let state = self.session(session);
        let name = || state.identity.name.clone();
        if !state.identity.snapshot {
            return Err(Refusal::NotSnapshot { session: name() });
        }
        if state.state == SessionState::Inactive {
            return Err(Refusal::NotActive { session: name() });
        }
        Ok(state.snapshot_count + 1)
    }

    /// Writes what the rings hold to a folder of the owner's. An answer for each domain that the session has.
    pub fn take_snapshot(&mut self, session: SessionId, output: PathBuf, owner: Person) -> Vec<RequestId> {
        self.record(Change::SnapshotTaken { session });
        let of_kernel = self.snapshot_kernel(session, output.clone(), owner.clone());
        let is_of_programs = !self.session(session).channels.is_empty();
        let of_programs = is_of_programs.then(|| {
            self.ask_consumer(|request| ToConsumer::Snapshot {
                session,
                output,
                owner,
                request,
            })
        });
        of_kernel.into_iter().chain(of_programs).collect()
    }

    /// Asks for the totals of a session, in each domain that it has.
    pub fn report(&mut self, session: SessionId) -> Vec<(Domain, RequestId)> {
        let of_programs = self.ask_consumer(|request| ToConsumer::Report {
            session,
            request,
            confirms: false,
        });
        let mut requests = vec![(Domain::User, of_programs)];
        if self.session(session).kernel.is_used() {
            let of_kernel = self.ask_kernel_consumer(|request| ToConsumer::Report {
                session,
                request,
                confirms: false,
            });
            requests.push((Domain::Kernel, of_kernel));
        }
        requests
    }

    /// The number of a channel.
    ///
    /// # Errors
    /// There is none of that name.
    pub fn find_channel(&self, session: SessionId, name: &str) -> Result<u32, Refusal> {
        let state = self.session(session);
        let found = state
            .current_channels()
            .find(|(_, channel)| channel.settings.name == name);
        found.map(|(number, _)| number).ok_or_else(|| Refusal::NoChannel {
            name: name.to_owned(),
            session: state.identity.name.clone(),
            domain: Domain::User,
            nearest: nearest(
                name,
                state.current_channels().map(|(_, channel)| &*channel.settings.name),
            ),
        })
    }

    /// A session that was found.
    ///
    /// # Panics
    /// When it has ended since.
    pub fn session(&self, session: SessionId) -> &Session {
        self.sessions.get(session).expect("callers found it")
    }

    fn channel(&self, session: SessionId, channel: u32) -> &Channel {
        &self.session(session).channels[channel as usize]
    }
}
