// SPDX-License-Identifier: MIT OR Apache-2.0
//! Does a little of everything, so that the kernel makes events of as many kinds as it can here.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Arc, Barrier, Mutex};
use std::thread;
use std::time::Duration;

/// Works in `folder` for a few seconds.
pub(crate) fn run(folder: &Path) {
    let parts: [fn(&Path); 8] = [files, pipes, sockets, processes, memory, locks, disks, shell];
    let threads = parts.map(|part| {
        let folder = folder.to_owned();
        thread::spawn(move || part(&folder))
    });
    for thread in threads {
        thread.join().unwrap();
    }
}

/// Works for some milliseconds.
pub(crate) fn moment(folder: &Path) {
    fs::write(folder.join("moment"), [1; 10_000]).unwrap();
    fs::remove_file(folder.join("moment")).unwrap();
    sh(&["sh", "-c", "true | true; sync -f ."]);
}

fn files(folder: &Path) {
    for index in 0..40 {
        let path = folder.join(format!("file {index}"));
        let mut file = File::create(&path).unwrap();
        file.write_all(&[7; 50_000]).unwrap();
        file.sync_all().unwrap();
        file.set_len(100).unwrap();
        fs::rename(&path, folder.join("renamed")).unwrap();
        fs::read(folder.join("renamed")).unwrap();
    }
    fs::remove_file(folder.join("renamed")).unwrap();
    walk(Path::new("/usr/share"), 3);
}

fn walk(folder: &Path, depth: u32) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
        if is_folder && depth > 0 {
            walk(&entry.path(), depth - 1);
        }
    }
}

fn pipes(_: &Path) {
    let (mut one, mut other) = UnixStream::pair().unwrap();
    let echo = thread::spawn(move || {
        let mut byte = [0];
        while other.read(&mut byte).unwrap() == 1 {
            other.write_all(&byte).unwrap();
        }
    });
    for byte in 0..200 {
        one.write_all(&[byte]).unwrap();
        one.read_exact(&mut [0]).unwrap();
    }
    drop(one);
    echo.join().unwrap();
}

fn sockets(_: &Path) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let server = thread::spawn(move || {
        for _ in 0..5 {
            let (mut stream, _) = listener.accept().unwrap();
            let mut text = Vec::new();
            stream.read_to_end(&mut text).unwrap();
        }
    });
    for _ in 0..5 {
        TcpStream::connect(address).unwrap().write_all(&[1; 20_000]).unwrap();
    }
    server.join().unwrap();
    for local in ["127.0.0.1:0", "[::1]:0"] {
        if let Ok(socket) = UdpSocket::bind(local) {
            let _ = socket.send_to(b"datagram", socket.local_addr().unwrap());
        }
    }
    // Nobody listens there.
    let _ = TcpStream::connect_timeout(&"127.0.0.1:9".parse().unwrap(), Duration::from_millis(200));
}

fn processes(_: &Path) {
    for _ in 0..15 {
        Command::new("true").status().unwrap();
    }
    let mut child = Command::new("sleep").arg("100").spawn().unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    let _ = Command::new("/dev/null").status();
}

fn memory(_: &Path) {
    for _ in 0..4 {
        let bytes = vec![1_u8; 24 << 20];
        assert_eq!(bytes[bytes.len() / 2], 1);
    }
}

fn locks(_: &Path) {
    let lock = Arc::new(Mutex::new(0));
    let barrier = Arc::new(Barrier::new(3));
    let threads = [(); 3].map(|()| {
        let (lock, barrier) = (Arc::clone(&lock), Arc::clone(&barrier));
        thread::spawn(move || {
            for _ in 0..20 {
                barrier.wait();
                *lock.lock().unwrap() += 1;
                thread::sleep(Duration::from_millis(1));
            }
        })
    });
    for thread in threads {
        thread.join().unwrap();
    }
}

/// A file system in a file, in a mount namespace of its own, which takes everything away with it.
fn disks(folder: &Path) {
    for (index, make) in ["mkfs.ext4 -q", "mkfs.xfs -q", "mkfs.btrfs -q"].iter().enumerate() {
        let image = folder.join(format!("disk{index}"));
        let place = folder.join(format!("place{index}"));
        fs::create_dir(&place).unwrap();
        let script = format!(
            "truncate -s 400M {0} && {make} {0} && mount -o loop {0} {1} && cd {1} && \
             dd if=/dev/zero of=a bs=64k count=100 conv=fsync && ln a b && ln -s a c && truncate -s 10M a && fallocate -l 5M d && \
             fallocate -p -o 0 -l 1M d && setfattr -n user.x -v y a; mv a e; rm b d; sync -f .; cat e >/dev/null; fstrim .; cd / && umount {1}",
            image.display(),
            place.display()
        );
        sh(&["unshare", "-m", "sh", "-c", &script]);
    }
}

fn shell(_: &Path) {
    for script in [
        "for i in 1 2 3 4 5; do echo $i | cat | wc -c; done",
        "kill -USR1 $$",
        "trap : ALRM; timeout 0.05 sleep 1; nice -n 5 true; chrt -f 3 true; taskset 1 true",
        "ip netns add piste-formats && ip netns exec piste-formats ip link set lo up; ip netns exec piste-formats ping -c2 127.0.0.1; \
         ip netns del piste-formats",
        "mkdir /sys/fs/cgroup/piste-formats && rmdir /sys/fs/cgroup/piste-formats",
        "unshare -n -p -f -u -i true",
        "cat /proc/self/maps /proc/interrupts /proc/meminfo",
        "sync; dd if=/dev/urandom of=/dev/null bs=64k count=20",
        "sh -c 'ulimit -v 20000; head -c 40000000 /dev/zero | tail'",
        "flock /tmp true; logger hello; tty; stty -a",
        "python3 -c 'import mmap,os,select,signal,threading,time\n\
         e=select.epoll(); r,w=os.pipe(); e.register(r); os.write(w,b\"x\"); e.poll(0.1)\n\
         m=mmap.mmap(-1,1<<22); m.madvise(mmap.MADV_HUGEPAGE); m.write(b\"x\"*(1<<22)); m.madvise(mmap.MADV_DONTNEED)\n\
         signal.signal(signal.SIGALRM,lambda *a:0); signal.setitimer(signal.ITIMER_REAL,0.01,0.01); time.sleep(0.05)\n\
         os.memfd_create(\"m\"); os.sched_yield(); os.sched_setaffinity(0,{0}); threading.Thread(target=lambda:0).start()'",
    ] {
        sh(&["sh", "-c", script]);
    }
}

/// Runs a command, if this machine has it; what it says is of no interest.
fn sh(words: &[&str]) {
    let mut command = Command::new(words[0]);
    command
        .args(&words[1..])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let _ = command.status();
}
