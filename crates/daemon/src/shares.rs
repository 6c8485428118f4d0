// SPDX-License-Identifier: MIT OR Apache-2.0
//! What users may make pisted keep. Of whatever stays (connections, ring sets, descriptions, waiting messages), one user may have a quarter,
//! and all users together three quarters: nobody takes everything, and root always finds room. Root and the user who
//! runs pisted may have all that is left.

use std::collections::HashMap;

/// How much of one thing each user has.
#[derive(Debug, Default)]
pub struct Holdings {
    by_user: HashMap<u32, usize>,
}

/// Who is limited, and who is not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Users {
    /// The user who runs pisted.
    pub own: u32,
}

impl Holdings {
    /// What a user has.
    pub fn of(&self, user: u32) -> usize {
        self.by_user.get(&user).copied().unwrap_or(0)
    }

    /// The user has so much more.
    pub fn add(&mut self, user: u32, amount: usize) {
        if amount > 0 {
            *self.by_user.entry(user).or_default() += amount;
        }
    }

    /// The user has so much less.
    pub fn remove(&mut self, user: u32, amount: usize) {
        if let Some(has) = self.by_user.get_mut(&user) {
            *has = has.saturating_sub(amount);
            if *has == 0 {
                self.by_user.remove(&user);
            }
        }
    }
}

impl Users {
    /// Those who run this process.
    pub fn of_this_process() -> Users {
        Users {
            own: rustix::process::geteuid().as_raw(),
        }
    }

    /// Whether the user may have `more` of something of which there can be `limit`.
    pub fn permit(self, holdings: &Holdings, user: u32, more: usize, limit: usize) -> bool {
        let total: usize = holdings.by_user.values().sum();
        if total + more > limit {
            return false;
        }
        let of_limited: usize = holdings
            .by_user
            .iter()
            .filter(|&(&user, _)| self.is_limited(user))
            .map(|(_, &amount)| amount)
            .sum();
        !self.is_limited(user)
            || (holdings.of(user) + more <= self.share(user, limit) && of_limited + more <= limit / 4 * 3)
    }

    /// How much of `limit` the user may have.
    pub fn share(self, user: u32, limit: usize) -> usize {
        if self.is_limited(user) { limit / 4 } else { limit }
    }

    fn is_limited(self, user: u32) -> bool {
        user != 0 && user != self.own
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_takes_everything_and_root_finds_room() {
        let (users, mut holdings) = (Users { own: 500 }, Holdings::default());
        let mut take = |user, more| {
            let permitted = users.permit(&holdings, user, more, 100);
            if permitted {
                holdings.add(user, more);
            }
            permitted
        };
        assert!(take(1000, 25) && !take(1000, 1));
        assert!(take(1001, 20) && !take(1001, 6) && take(1001, 5));
        assert!(take(1002, 25) && !take(1003, 1), "three quarters are taken");
        assert!(take(0, 10) && take(500, 15) && !take(0, 1) && !take(500, 1));
        holdings.remove(1000, 25);
        assert_eq!(holdings.of(1000), 0);
        assert!(users.permit(&holdings, 1003, 25, 100));
    }
}
