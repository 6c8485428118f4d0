// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whose events a stream holds, where it is of one process.

use piste_ctf::read::plan::IntegerNode;
use piste_ctf::read::schema::{EnvironmentValue, Scope};
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
    let environment = &trace.schema().environment;
    if let Some((_, EnvironmentValue::Integer(vpid))) = environment.iter().find(|(key, _)| key == "vpid") {
        return Some(*vpid);
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
    visited.ok().and(ids.pid.or(ids.vpid))
}

/// Looks for the fields `pid` and `vpid`.
#[derive(Default)]
struct Ids {
    field: Option<Field>,
    pid: Option<i64>,
    vpid: Option<i64>,
}

enum Field {
    Pid,
    Vpid,
}

impl Visitor for Ids {
    fn field(&mut self, name: &str) {
        self.field = match name {
            "pid" => Some(Field::Pid),
            "vpid" => Some(Field::Vpid),
            _ => None,
        };
    }

    fn integer(&mut self, _integer: &IntegerNode, value: u64) {
        let value = Some(value.cast_signed());
        match self.field.take() {
            Some(Field::Pid) => self.pid = value,
            Some(Field::Vpid) => self.vpid = value,
            None => {}
        }
    }
}
