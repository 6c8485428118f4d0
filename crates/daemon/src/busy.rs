// SPDX-License-Identifier: MIT OR Apache-2.0
//! Since when a thread has been at the files of a trace. A disk may hang; who waits for the thread is told so instead of waiting too.

use std::cell::RefCell;
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// What other threads see of one that is at files now and then.
#[derive(Debug, Clone)]
pub struct Busy(Arc<Since>);

#[derive(Debug)]
struct Since {
    epoch: Instant,
    /// Microseconds after the epoch, of the time when it began; 0 while it is not at files.
    began: AtomicU64,
}

/// While it lives, its thread is at files.
#[derive(Debug)]
pub struct AtFiles {
    /// Absent where nobody looks, or within another one.
    busy: Option<Busy>,
    _of_this_thread: PhantomData<*const ()>,
}

thread_local! {
    static OF_THIS_THREAD: RefCell<Option<Busy>> = const { RefCell::new(None) };
}

impl Busy {
    /// That of the thread that calls it.
    pub fn of_this_thread() -> Busy {
        OF_THIS_THREAD.with_borrow_mut(|busy| {
            let new = || {
                Busy(Arc::new(Since {
                    epoch: Instant::now(),
                    began: AtomicU64::new(0),
                }))
            };
            busy.get_or_insert_with(new).clone()
        })
    }

    /// How long the thread has been at files.
    pub fn time(&self) -> Option<Duration> {
        // Relaxed, here and below: nothing else depends on it.
        match self.0.began.load(Ordering::Relaxed) {
            0 => None,
            began => Some(self.0.epoch.elapsed().saturating_sub(Duration::from_micros(began))),
        }
    }
}

impl AtFiles {
    /// The thread is at files from now on.
    pub fn begin() -> AtFiles {
        let busy = OF_THIS_THREAD.with_borrow(Clone::clone);
        let busy = busy.filter(|busy| busy.0.began.load(Ordering::Relaxed) == 0);
        if let Some(Busy(since)) = &busy {
            let now = since.epoch.elapsed().as_micros() as u64;
            since.began.store(now.max(1), Ordering::Relaxed);
        }
        AtFiles {
            busy,
            _of_this_thread: PhantomData,
        }
    }
}

impl Drop for AtFiles {
    fn drop(&mut self) {
        if let Some(Busy(since)) = &self.busy {
            since.began.store(0, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_at_files_from_the_first_to_the_last_of_what_it_does_with_them() {
        drop(AtFiles::begin());
        let busy = Busy::of_this_thread();
        assert_eq!(busy.time(), None);
        let outer = AtFiles::begin();
        let begun = busy.time().expect("it is at files");
        drop(AtFiles::begin());
        assert!(busy.time().expect("it still is") >= begun);
        let of_another = std::thread::spawn(|| Busy::of_this_thread().time()).join().unwrap();
        assert_eq!(of_another, None);
        drop(outer);
        assert_eq!(busy.time(), None);
    }
}
