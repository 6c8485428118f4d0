// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whose events a stream holds, where it is of one process.

use piste_ctf::read::plan::IntegerNode;
use piste_ctf::read::schema::Scope;
use piste_ctf::read::walk::Visitor;

use crate::finding::Findings;
use crate::folder::Trace;
use crate::index::StreamIndex;
use crate::stream::{Stream, StreamFile};

/// Enough for the start of a packet.
const WINDOW_BYTES: usize = 4 << 10;

/// The id of the process whose events a stream holds. In traces of programs, the whole trace or each packet belongs to one process.
/// This is the id that the tracer saw (`pid`) if the packet has it, else the id in the process's own namespace (`vpid`).
pub fn process(trace: &Trace, index: &StreamIndex) -> Option<i64> {
    if let Some(process) = trace.own_process() {
        return Some(process);
    }
    let file = StreamFile {
        plan: &trace.plan,
        index,
    };
    let first = 0..index.packets.len().min(1);
    let mut stream = Stream::open(&file, first, WINDOW_BYTES).ok()?;
    stream.next(&mut Findings::default());
    let head = stream.parts().3.to_vec();
    let mut ids = Ids::default();
    let visited = stream.parts().0.visit_packet(Scope::PacketContext, &head, &mut ids);
    visited.ok().and(ids.process()).map(i64::from)
}

/// Takes the ids that say whose an event is.
#[derive(Default)]
pub(crate) struct Ids {
    next: Option<Id>,
    pid: Option<i32>,
    vpid: Option<i32>,
    tid: Option<i32>,
    vtid: Option<i32>,
    pub(crate) uid: Option<u32>,
}

impl Ids {
    /// That which the tracer saw, else that in the namespace of the process.
    pub(crate) fn process(&self) -> Option<i32> {
        self.pid.or(self.vpid)
    }

    /// The same of the thread.
    pub(crate) fn thread(&self) -> Option<i32> {
        self.tid.or(self.vtid)
    }
}

enum Id {
    Pid,
    Vpid,
    Tid,
    Vtid,
    Uid,
}

impl Visitor for Ids {
    fn field(&mut self, name: &str) {
        self.next = match name {
            "pid" => Some(Id::Pid),
            "vpid" => Some(Id::Vpid),
            "tid" => Some(Id::Tid),
            "vtid" => Some(Id::Vtid),
            "uid" => Some(Id::Uid),
            _ => None,
        };
    }

    fn integer(&mut self, _: &IntegerNode, value: u64) {
        let id = match self.next.take() {
            Some(Id::Pid) => &mut self.pid,
            Some(Id::Vpid) => &mut self.vpid,
            Some(Id::Tid) => &mut self.tid,
            Some(Id::Vtid) => &mut self.vtid,
            Some(Id::Uid) => {
                self.uid = u32::try_from(value).ok();
                return;
            }
            None => return,
        };
        *id = i32::try_from(value.cast_signed()).ok();
    }
}
