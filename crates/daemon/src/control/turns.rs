// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whose turn it is: users one after the other, and of a user's connections the one that waited longest. So a user with thousands of busy
//! connections holds others up no longer than one with a single one.

use std::collections::{HashMap, HashSet, VecDeque};

/// Connections that have something to read.
#[derive(Debug, Default)]
pub struct Turns {
    users: VecDeque<u32>,
    connections: HashMap<u32, VecDeque<u64>>,
    waiting: HashSet<u64>,
}

impl Turns {
    /// The user's connection waits for its turn, unless it does already.
    pub fn add(&mut self, user: u32, connection: u64) {
        if !self.waiting.insert(connection) {
            return;
        }
        let connections = self.connections.entry(user).or_default();
        if connections.is_empty() {
            self.users.push_back(user);
        }
        connections.push_back(connection);
    }

    /// The connection whose turn it is.
    pub fn take(&mut self) -> Option<u64> {
        let user = self.users.pop_front()?;
        let connections = self.connections.get_mut(&user)?;
        let connection = connections.pop_front()?;
        if connections.is_empty() {
            self.connections.remove(&user);
        } else {
            self.users.push_back(user);
        }
        self.waiting.remove(&connection);
        Some(connection)
    }

    /// Whether nobody waits.
    pub fn is_empty(&self) -> bool {
        self.users.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_take_turns() {
        let mut turns = Turns::default();
        for (user, connection) in [(7, 1), (7, 2), (7, 1), (7, 3), (8, 4), (9, 5), (8, 6)] {
            turns.add(user, connection);
        }
        let order: Vec<u64> = std::iter::from_fn(|| turns.take()).collect();
        assert_eq!(order, [1, 4, 5, 2, 6, 3]);
        assert!(turns.is_empty());
        turns.add(7, 1);
        assert_eq!(turns.take(), Some(1));
    }
}
