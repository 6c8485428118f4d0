// SPDX-License-Identifier: MIT OR Apache-2.0
//! Allocates a bell for each ring set (include/piste/abi/ring.h), on boards that programs of one user share.
//!
//! Bells only save work: the consumer polls a ring set without one. So a new pisted does not take over the bells that an earlier one
//! allocated. Programs and the consumer that have them keep using them.

use std::collections::{BTreeMap, HashMap};
use std::os::fd::OwnedFd;
use std::sync::Arc;

use piste_ring::{BELL_COUNT, create_board};

use crate::link::{BellPlace, RingSetKey};

/// The boards of all users.
#[derive(Debug, Default)]
pub struct Boards {
    by_user: HashMap<u32, Vec<Board>>,
    bells: BTreeMap<RingSetKey, (u32, Bell)>,
    last_number: u32,
}

/// A ring set's bell.
#[derive(Debug, Clone)]
pub struct Bell {
    /// Where it is.
    pub place: BellPlace,
    /// The memory of its board.
    pub board: Arc<OwnedFd>,
}

#[derive(Debug)]
struct Board {
    number: u32,
    memory: Arc<OwnedFd>,
    /// Freed bells; all bells below `used_count` have been allocated once.
    free: Vec<u32>,
    used_count: u32,
}

impl Boards {
    /// Starts at a number that no earlier pisted is likely to have used, because a consumer keeps the boards that it knows.
    pub fn new() -> Boards {
        Boards {
            last_number: std::process::id() << 8,
            ..Boards::default()
        }
    }

    /// Allocates a bell for a new ring set of a user. Without descriptors for another board, the ring set has none.
    pub fn give(&mut self, key: RingSetKey, user: u32) {
        let boards = self.by_user.entry(user).or_default();
        let bell = boards.iter_mut().find_map(Board::take).or_else(|| {
            let memory = Arc::new(create_board().ok()?);
            self.last_number += 1;
            boards.push(Board {
                number: self.last_number,
                memory,
                free: Vec::new(),
                used_count: 0,
            });
            boards.last_mut()?.take()
        });
        if let Some(bell) = bell {
            self.bells.insert(key, (user, bell));
        }
    }

    /// The bell of a ring set.
    pub fn of(&self, key: RingSetKey) -> Option<&Bell> {
        self.bells.get(&key).map(|(_, bell)| bell)
    }

    /// Frees the bell of a ring set that is gone. Boards stay for later ring sets.
    pub fn take_back(&mut self, key: RingSetKey) {
        let Some((user, bell)) = self.bells.remove(&key) else {
            return;
        };
        let Some(boards) = self.by_user.get_mut(&user) else {
            return;
        };
        if let Some(board) = boards.iter_mut().find(|board| board.number == bell.place.board) {
            board.free.push(bell.place.index);
        }
    }
}

impl Board {
    fn take(&mut self) -> Option<Bell> {
        let index = match self.free.pop() {
            Some(index) => index,
            None if self.used_count as usize == BELL_COUNT => return None,
            None => {
                self.used_count += 1;
                self.used_count - 1
            }
        };
        Some(Bell {
            place: BellPlace {
                board: self.number,
                index,
            },
            board: self.memory.clone(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_ring_set_has_its_own_bell_on_its_users_boards() {
        let mut boards = Boards::default();
        let count = BELL_COUNT as u32;
        for key in 1..=count + 1 {
            boards.give(key, 1000);
        }
        boards.give(count + 2, 1001);
        let place = |boards: &Boards, key| boards.of(key).unwrap().place;
        assert_eq!(
            place(&boards, count),
            BellPlace {
                board: 1,
                index: count - 1
            }
        );
        assert_eq!(place(&boards, count + 1), BellPlace { board: 2, index: 0 });
        assert_eq!(place(&boards, count + 2), BellPlace { board: 3, index: 0 });
        boards.take_back(7);
        assert!(boards.of(7).is_none());
        boards.give(count + 3, 1000);
        assert_eq!(place(&boards, count + 3), BellPlace { board: 1, index: 6 });
    }
}
