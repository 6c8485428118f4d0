// SPDX-License-Identifier: MIT OR Apache-2.0
//! The server of `piste web`: it shows recordings in a browser on the same machine.
//!
//! ```text
//!   browser --/TOKEN/...--> guard (guard.rs) --> pages and answers (pages.rs)
//!                                                  |-- timelines, made beside the traces (recordings.rs)
//!                                                  '-- what `piste` says: insights, analyses, events, queries, exports (tools.rs)
//! ```
//!
//! A page of another site must not learn anything here, nor ask for anything: see [`guard`].

mod alike;
mod assets;
mod classes;
mod compare;
mod csv;
mod events;
mod exports;
mod guard;
mod live;
mod longest;
mod notes;
mod pages;
mod queries;
mod questions;
mod recordings;
mod reply;
mod search;
mod spans;
mod tools;
mod wakes;
mod walk;

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::rand::{GetRandomFlags, getrandom};
use tokio::net::TcpListener;
use tokio::time::timeout;

pub use self::assets::has_viewer;
use self::guard::Guard;
use self::recordings::Recordings;

/// When the server is told to stop, answers have this long to be finished.
const LAST_ANSWERS: Duration = Duration::from_millis(500);
/// And a timeline that is being made, to be given up.
const LAST_TIMELINE: Duration = Duration::from_secs(2);

/// What is shown, and where.
#[derive(Clone, Debug)]
pub struct Options {
    /// The recordings: folders with traces of one machine each.
    pub paths: Vec<PathBuf>,
    /// The `piste` command, which is asked for insights and analyses.
    pub piste: PathBuf,
    /// The address to listen on. Whoever can reach it and knows the token can read the recordings.
    pub address: IpAddr,
    /// The port; 0: any that is free.
    pub port: u16,
}

/// A server that listens, and does not answer yet.
#[derive(Debug)]
pub struct Server {
    listener: std::net::TcpListener,
    address: SocketAddr,
    token: String,
    options: Options,
}

impl Server {
    /// Begins to listen.
    ///
    /// # Errors
    /// The port is taken, or the kernel gives no random numbers.
    pub fn bind(options: Options) -> io::Result<Server> {
        let listener = std::net::TcpListener::bind((options.address, options.port))?;
        listener.set_nonblocking(true)?;
        Ok(Server {
            address: listener.local_addr()?,
            listener,
            token: token()?,
            options,
        })
    }

    /// What to open in the browser. Whoever knows it can read the recordings.
    pub fn url(&self) -> String {
        let host = match self.address.ip() {
            ip if ip.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
            ip => ip,
        };
        format!("http://{}/{}/", SocketAddr::new(host, self.address.port()), self.token)
    }

    /// Answers until `stop` is told to stop.
    ///
    /// # Errors
    /// The kernel's.
    pub fn run(self, stop: &Stop) -> io::Result<()> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .thread_name("piste-web")
            .enable_all()
            .build()?;
        let recordings = Arc::new(Recordings::new(&self.options.paths));
        let making = recordings.make()?;
        let served = runtime.block_on(async {
            let listener = TcpListener::from_std(self.listener)?;
            let guard = Guard::new(self.address, &self.token);
            let pages = pages::router(guard, recordings.clone(), self.options.piste);
            let serving = axum::serve(listener, pages).with_graceful_shutdown(stop.0.wait());
            let serving = tokio::spawn(serving.into_future());
            stop.0.wait().await;
            // Answers that take longer are given up.
            let _ = timeout(LAST_ANSWERS, serving).await;
            Ok(())
        });
        recordings.stop();
        runtime.shutdown_background();
        // What reads a trace ends at once, but not what opens one.
        let end = Instant::now() + LAST_TIMELINE;
        while !making.is_finished() && Instant::now() < end {
            thread::sleep(Duration::from_millis(5));
        }
        served
    }
}

/// Ends a server from another thread.
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<Stopping>);

#[derive(Debug, Default)]
struct Stopping {
    is_over: AtomicBool,
    told: tokio::sync::Notify,
}

impl Stop {
    /// Tells the server to stop. Safe on any thread, not in a signal handler.
    pub fn stop(&self) {
        self.0.is_over.store(true, Ordering::Release);
        self.0.told.notify_waiters();
    }
}

impl Stopping {
    fn wait(self: &Arc<Stopping>) -> impl Future<Output = ()> + Send + 'static {
        let stopping = self.clone();
        async move {
            loop {
                let told = stopping.told.notified();
                if stopping.is_over.load(Ordering::Acquire) {
                    return;
                }
                told.await;
            }
        }
    }
}

/// 128 random bits as text.
fn token() -> io::Result<String> {
    let mut bytes = [0_u8; 16];
    // The kernel gives as many at once.
    getrandom(&mut bytes, GetRandomFlags::empty())?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
