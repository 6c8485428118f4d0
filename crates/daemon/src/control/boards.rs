// SPDX-License-Identifier: MIT OR Apache-2.0
//! Gives ring sets their bells (include/piste/abi/ring.h), on boards that programs of one user share.
//!
//! A bell is a help only: a ring set without one is looked at all the time. So those of an earlier pisted are not taken over; what an
//! earlier pisted's programs and the consumer have of them goes on.

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
    /// Those that are not free are below `used_count`.
    free: Vec<u32>,
    used_count: u32,
}

impl Boards {
    /// Boards whose numbers no earlier pisted has used, most likely: a consumer keeps those that it knows.
    pub fn new() -> Boards {
        Boards {
            last_number: std::process::id() << 8,
            ..Boards::default()
        }
    }

    /// Gives a new ring set of a user a bell, if there can be one.
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

    /// The ring set is gone.
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
        // The last one stays: programs come and go.
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
