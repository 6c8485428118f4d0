// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the records of a program's channel carry between their header and their fields.
//!
//! People name contexts; programs are told of them as `include/piste/abi/ring.h` has it, and traces describe them as fields.

use std::collections::BTreeMap;

use piste_abi::{self as abi, FromZeros};
use piste_ctf::{Base, Element, Field, FieldKind};
use piste_ring::Contexts as Told;
use serde::{Deserialize, Serialize};

/// A choice of contexts, each once, in the order of their bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Vec<String>", into = "Vec<String>")]
pub struct Contexts(Vec<Context>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Context {
    /// As people write it.
    name: String,
    code: Code,
}

/// How a program is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Code {
    /// A bit of the header.
    Bit(u32),
    /// One of `more`: its kind.
    Kind(u32),
    /// The same, of what the kernel counts.
    Usage(u32),
    /// The same, of what the processor counts: type and config of perf_event_open(2).
    Counter(u32, u64),
    /// The program says it.
    Application,
}

/// In the order of their bytes; counters and those of applications follow.
const KNOWN: [(&str, Code); 23] = [
    ("vtid", Code::Bit(abi::PISTE_CONTEXT_VTID)),
    ("cpu_id", Code::Bit(abi::PISTE_CONTEXT_CPU_ID)),
    ("vpid", Code::Kind(abi::PISTE_CONTEXT_VPID)),
    ("procname", Code::Kind(abi::PISTE_CONTEXT_PROCNAME)),
    ("pthread_id", Code::Kind(abi::PISTE_CONTEXT_PTHREAD_ID)),
    ("ip", Code::Kind(abi::PISTE_CONTEXT_IP)),
    ("nice", Code::Kind(abi::PISTE_CONTEXT_NICE)),
    ("prio", Code::Kind(abi::PISTE_CONTEXT_PRIO)),
    ("vuid", Code::Kind(abi::PISTE_CONTEXT_VUID)),
    ("veuid", Code::Kind(abi::PISTE_CONTEXT_VEUID)),
    ("vsuid", Code::Kind(abi::PISTE_CONTEXT_VSUID)),
    ("vgid", Code::Kind(abi::PISTE_CONTEXT_VGID)),
    ("vegid", Code::Kind(abi::PISTE_CONTEXT_VEGID)),
    ("vsgid", Code::Kind(abi::PISTE_CONTEXT_VSGID)),
    ("cgroup_ns", Code::Kind(abi::PISTE_CONTEXT_CGROUP_NS)),
    ("ipc_ns", Code::Kind(abi::PISTE_CONTEXT_IPC_NS)),
    ("mnt_ns", Code::Kind(abi::PISTE_CONTEXT_MNT_NS)),
    ("net_ns", Code::Kind(abi::PISTE_CONTEXT_NET_NS)),
    ("pid_ns", Code::Kind(abi::PISTE_CONTEXT_PID_NS)),
    ("time_ns", Code::Kind(abi::PISTE_CONTEXT_TIME_NS)),
    ("user_ns", Code::Kind(abi::PISTE_CONTEXT_USER_NS)),
    ("uts_ns", Code::Kind(abi::PISTE_CONTEXT_UTS_NS)),
    ("cgroup_path", Code::Kind(abi::PISTE_CONTEXT_CGROUP_PATH)),
];

const COUNTER_PREFIX: &str = "perf:thread:";
const APPLICATION_PREFIX: &str = "app:";

const HARDWARE: u32 = 0;
const HARDWARE_CACHE: u32 = 3;
const RAW: u32 = 4;

/// Names as perf(1) has them; of those with the same code, the first is the one that is shown.
const COUNTERS: [(&str, Code); 21] = [
    ("task-clock", Code::Usage(abi::PISTE_USAGE_TASK_CLOCK)),
    ("page-faults", Code::Usage(abi::PISTE_USAGE_PAGE_FAULTS)),
    ("faults", Code::Usage(abi::PISTE_USAGE_PAGE_FAULTS)),
    ("minor-faults", Code::Usage(abi::PISTE_USAGE_MINOR_FAULTS)),
    ("major-faults", Code::Usage(abi::PISTE_USAGE_MAJOR_FAULTS)),
    ("context-switches", Code::Usage(abi::PISTE_USAGE_CONTEXT_SWITCHES)),
    ("cs", Code::Usage(abi::PISTE_USAGE_CONTEXT_SWITCHES)),
    ("cycles", Code::Counter(HARDWARE, 0)),
    ("cpu-cycles", Code::Counter(HARDWARE, 0)),
    ("instructions", Code::Counter(HARDWARE, 1)),
    ("cache-references", Code::Counter(HARDWARE, 2)),
    ("cache-misses", Code::Counter(HARDWARE, 3)),
    ("branches", Code::Counter(HARDWARE, 4)),
    ("branch-instructions", Code::Counter(HARDWARE, 4)),
    ("branch-misses", Code::Counter(HARDWARE, 5)),
    ("bus-cycles", Code::Counter(HARDWARE, 6)),
    ("ref-cycles", Code::Counter(HARDWARE, 9)),
    ("L1-dcache-load-misses", Code::Counter(HARDWARE_CACHE, 0x1_0000)),
    ("LLC-load-misses", Code::Counter(HARDWARE_CACHE, 0x1_0002)),
    ("dTLB-load-misses", Code::Counter(HARDWARE_CACHE, 0x1_0003)),
    ("iTLB-load-misses", Code::Counter(HARDWARE_CACHE, 0x1_0004)),
];

const ALLOWED: &str = "what `piste add-context --list` shows";

/// A context that there cannot be, or one too many.
#[derive(Debug, PartialEq, Eq)]
pub struct WrongContext {
    /// As it was asked for.
    pub name: String,
    /// What is possible.
    pub allowed: String,
}

impl Default for Contexts {
    /// What a channel has unless others are asked for.
    fn default() -> Contexts {
        Contexts(
            KNOWN[..2]
                .iter()
                .map(|&(name, code)| Context::new(name, code))
                .collect(),
        )
    }
}

impl Contexts {
    /// None.
    pub const NONE: Contexts = Contexts(Vec::new());

    /// Those with these names.
    ///
    /// # Errors
    /// The first name that is none, or that there is no more room for.
    pub fn of(names: &[String]) -> Result<Contexts, WrongContext> {
        let mut chosen = BTreeMap::new();
        for name in names {
            let context = Context::of(name).ok_or_else(|| WrongContext {
                name: name.clone(),
                allowed: ALLOWED.into(),
            })?;
            chosen.insert(context.place(), context);
            let (count, bytes) = (chosen.len(), chosen.values().map(Context::longest_bytes).sum::<usize>());
            // The two of the header are among the number, which is no harm.
            if count > abi::PISTE_MORE_COUNT_MAX as usize || bytes > abi::PISTE_MORE_BYTES_MAX as usize {
                let (count_max, bytes_max) = (abi::PISTE_MORE_COUNT_MAX, abi::PISTE_MORE_BYTES_MAX);
                return Err(WrongContext {
                    name: name.clone(),
                    allowed: format!("{count_max} contexts of {bytes_max} bytes together, a text counted as 256"),
                });
            }
        }
        Ok(Contexts(chosen.into_values().collect()))
    }

    /// These, and others.
    ///
    /// # Errors
    /// As of [`Contexts::of`].
    pub fn with(&self, others: &Contexts) -> Result<Contexts, WrongContext> {
        let all: Vec<String> = [self, others].into_iter().flat_map(Contexts::names).collect();
        Contexts::of(&all)
    }

    /// As people write them.
    pub fn names(&self) -> Vec<String> {
        self.0.iter().map(|context| context.name.clone()).collect()
    }

    /// As the trace describes them.
    pub fn fields(&self) -> Vec<Field> {
        self.0.iter().map(Context::field).collect()
    }

    /// As programs are told of them.
    pub fn told(&self) -> Told {
        let mut told = Told::default();
        for context in &self.0 {
            match context.code {
                Code::Bit(bit) => told.bits |= bit,
                _ => told.more.push(context.told()),
            }
        }
        told
    }

    /// The counters of the processor among them: name, and type and config of perf_event_open(2).
    pub fn counters(&self) -> impl Iterator<Item = (&str, u32, u64)> {
        self.0.iter().filter_map(|context| match context.code {
            Code::Counter(kind, config) => Some((&*context.name, kind, config)),
            _ => None,
        })
    }
}

/// A context that filters can use in programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Filterable {
    /// Its kind.
    pub kind: u32,
    /// What the kernel counts.
    pub config: u64,
    /// What it is.
    pub is_text: bool,
}

impl Filterable {
    /// The context that a trace calls by that name.
    pub fn of(field: &str) -> Option<Filterable> {
        // For each comparison of each event with a filter: without a copy.
        let is_counter = |name: &str| {
            let counter = field.strip_prefix("perf_thread_").unwrap_or_default();
            let in_field = |byte| if byte == b'-' { b'_' } else { byte };
            name.bytes().map(in_field).eq(counter.bytes())
        };
        let known = KNOWN.iter().find(|(name, _)| *name == field);
        let counter = || COUNTERS.iter().find(|(name, _)| is_counter(name));
        let (name, code) = known.or_else(counter)?;
        let context = Context::new(name, *code);
        let config = match context.code {
            Code::Kind(abi::PISTE_CONTEXT_IP) | Code::Bit(_) | Code::Counter(..) | Code::Application => return None,
            Code::Kind(_) => 0,
            Code::Usage(which) => which.into(),
        };
        let is_text = matches!(context.field_kind(), FieldKind::String | FieldKind::FixedText { .. });
        Some(Filterable {
            kind: context.kind(),
            config,
            is_text,
        })
    }
}

impl TryFrom<Vec<String>> for Contexts {
    type Error = String;

    fn try_from(names: Vec<String>) -> Result<Contexts, String> {
        Contexts::of(&names).map_err(|wrong| format!("context {:?} is not possible", wrong.name))
    }
}

impl From<Contexts> for Vec<String> {
    fn from(contexts: Contexts) -> Vec<String> {
        contexts.names()
    }
}

impl Context {
    fn new(name: &str, code: Code) -> Context {
        Context {
            name: name.to_owned(),
            code,
        }
    }

    fn of(name: &str) -> Option<Context> {
        if let Some(counter) = name.strip_prefix(COUNTER_PREFIX) {
            return Context::counter(counter);
        }
        if let Some(full) = name.strip_prefix(APPLICATION_PREFIX) {
            let (provider, context) = full.split_once(':')?;
            let is_possible = !provider.is_empty()
                && !context.is_empty()
                && full.len() < abi::PISTE_CONTEXT_NAME_BYTES as usize
                && !full.contains(char::is_control);
            return is_possible.then(|| Context::new(name, Code::Application));
        }
        let known = KNOWN.iter().find(|(known, _)| *known == name);
        known.map(|&(name, code)| Context::new(name, code))
    }

    fn counter(name: &str) -> Option<Context> {
        let shown = |name: &str| format!("{COUNTER_PREFIX}{name}");
        if let Some((_, code)) = COUNTERS.iter().find(|(known, _)| *known == name) {
            let (first, _) = COUNTERS.iter().find(|(_, other)| other == code)?;
            return Some(Context::new(&shown(first), *code));
        }
        let config = u64::from_str_radix(name.strip_prefix('r')?, 16).ok()?;
        Some(Context::new(
            &shown(&format!("r{config:x}")),
            Code::Counter(RAW, config),
        ))
    }

    /// Where it comes among others.
    fn place(&self) -> (usize, String) {
        let known = KNOWN.iter().position(|(_, code)| *code == self.code);
        let behind = match self.code {
            Code::Application => KNOWN.len() + 1,
            _ => KNOWN.len(),
        };
        (known.unwrap_or(behind), self.name.clone())
    }

    fn kind(&self) -> u32 {
        match self.code {
            Code::Bit(_) => 0,
            Code::Kind(kind) => kind,
            Code::Usage(_) => abi::PISTE_CONTEXT_USAGE,
            Code::Counter(..) => abi::PISTE_CONTEXT_COUNTER,
            Code::Application => abi::PISTE_CONTEXT_APPLICATION,
        }
    }

    fn told(&self) -> abi::piste_context {
        let mut told = abi::piste_context {
            kind: self.kind(),
            ..abi::piste_context::new_zeroed()
        };
        match self.code {
            Code::Bit(_) | Code::Kind(_) => {}
            Code::Usage(which) => told.config = which.into(),
            Code::Counter(kind, config) => (told.type_, told.config) = (kind, config),
            Code::Application => {
                let bytes = self.name[APPLICATION_PREFIX.len()..].bytes();
                told.name.iter_mut().zip(bytes).for_each(|(to, byte)| *to = byte);
            }
        }
        told
    }

    fn field_kind(&self) -> FieldKind {
        let (element, base) = match self.code {
            Code::Bit(abi::PISTE_CONTEXT_CPU_ID) => (Element::Uint16, Base::Decimal),
            Code::Bit(_) => (Element::Int32, Base::Decimal),
            Code::Usage(_) => (Element::Uint64, Base::Decimal),
            Code::Counter(..) | Code::Application => return FieldKind::Dynamic,
            Code::Kind(kind) => match kind {
                abi::PISTE_CONTEXT_VPID | abi::PISTE_CONTEXT_NICE | abi::PISTE_CONTEXT_PRIO => {
                    (Element::Int32, Base::Decimal)
                }
                abi::PISTE_CONTEXT_PROCNAME => {
                    return FieldKind::FixedText {
                        bytes: abi::PISTE_CONTEXT_COMM_BYTES,
                    };
                }
                abi::PISTE_CONTEXT_PTHREAD_ID | abi::PISTE_CONTEXT_IP => (Element::Uint64, Base::Hex),
                abi::PISTE_CONTEXT_CGROUP_PATH => return FieldKind::String,
                _ => (Element::Uint32, Base::Decimal),
            },
        };
        FieldKind::Scalar { element, base }
    }

    fn field(&self) -> Field {
        Field {
            // As LTTng has them.
            name: self.name.replace([':', '-'], "_"),
            kind: self.field_kind(),
        }
    }

    fn longest_bytes(&self) -> usize {
        match (self.field_kind(), self.code) {
            (FieldKind::Scalar { element, .. }, _) => element.bytes() as usize,
            (FieldKind::FixedText { bytes }, _) => bytes as usize,
            (_, Code::Counter(..)) => 1 + size_of::<u64>(),
            _ => 1 + abi::PISTE_CONTEXT_TEXT_BYTES as usize,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(names: &[&str]) -> Result<Contexts, WrongContext> {
        let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
        Contexts::of(&names)
    }

    #[test]
    fn contexts_have_the_order_of_their_bytes_whatever_order_they_are_asked_for_in() {
        assert_eq!(of(&["cpu_id", "vtid", "vtid"]).unwrap(), Contexts::default());
        let contexts = of(&[
            "app:shop:tenant",
            "perf:thread:cpu-cycles",
            "procname",
            "perf:thread:cs",
            "vtid",
        ])
        .unwrap();
        let names = [
            "vtid",
            "procname",
            "perf:thread:context-switches",
            "perf:thread:cycles",
            "app:shop:tenant",
        ];
        assert_eq!(contexts.names(), names);
        let fields: Vec<String> = contexts.fields().into_iter().map(|field| field.name).collect();
        assert_eq!(
            fields,
            [
                "vtid",
                "procname",
                "perf_thread_context_switches",
                "perf_thread_cycles",
                "app_shop_tenant"
            ]
        );
        let told = contexts.told();
        assert_eq!((told.bits, told.more.len()), (abi::PISTE_CONTEXT_VTID, 4));
        assert_eq!(told.more[3].name[..12], *b"shop:tenant\0");
        let counters: Vec<_> = contexts.counters().collect();
        assert_eq!(counters, [("perf:thread:cycles", HARDWARE, 0)]);
    }

    #[test]
    fn every_context_that_people_are_told_of_is_known() {
        let all = piste_control::contexts::OF_PROGRAMS.map(|context| context.name);
        assert_eq!(of(&all[..23]).unwrap().names(), all[..23]);
        let counters: Vec<String> = of(&all[23..]).unwrap().names();
        assert_eq!(counters.len(), all.len() - 23);
        assert!(counters.iter().all(|counter| all.contains(&&**counter)));
        assert_eq!(KNOWN.len(), 23);
    }

    #[test]
    fn filters_know_contexts_by_the_names_of_their_fields() {
        let counters = COUNTERS.iter().filter_map(|(name, _)| Context::counter(name));
        for context in KNOWN
            .iter()
            .map(|&(name, code)| Context::new(name, code))
            .chain(counters)
        {
            let found = Filterable::of(&context.field().name).map(|found| found.kind);
            let is_possible = matches!(context.code, Code::Usage(_))
                || matches!(context.code, Code::Kind(kind) if kind != abi::PISTE_CONTEXT_IP);
            assert_eq!(found, is_possible.then(|| context.kind()), "{context:?}");
        }
        for other in [
            "",
            "prio2",
            "task_clock",
            "perf_thread_",
            "perf:thread:faults",
            "perf_thread_task-clock",
            "app_shop_tenant",
        ] {
            assert!(Filterable::of(other).is_none(), "{other}");
        }
    }

    #[test]
    fn contexts_are_kept_by_their_names() {
        let contexts = of(&["vtid", "perf:thread:r1A8", "app:a:b"]).unwrap();
        let kept = serde_json::to_string(&contexts).unwrap();
        assert_eq!(kept, r#"["vtid","perf:thread:r1a8","app:a:b"]"#);
        assert_eq!(serde_json::from_str::<Contexts>(&kept).unwrap(), contexts);
        assert_eq!(contexts.with(&Contexts::default()).unwrap().names()[1], "cpu_id");
    }

    #[test]
    fn what_is_no_context_is_refused() {
        assert_eq!(of(&[]), Ok(Contexts::NONE));
        for name in [
            "tid",
            "",
            "app:",
            "app:shop",
            "app::x",
            "app:x:",
            "perf:thread:",
            "perf:thread:rxyz",
            "perf:cpu:cycles",
        ] {
            assert_eq!(of(&["vtid", name]).unwrap_err().name, name);
        }
        let long = format!("app:{}:{}", "p".repeat(23), "n".repeat(24));
        assert_eq!(of(&[&long]).unwrap_err().name, long);
        assert!(of(&[&long[..long.len() - 1]]).is_ok());
        let many: Vec<String> = (0..8).map(|number| format!("app:shop:context{number}")).collect();
        assert_eq!(Contexts::of(&many).unwrap_err().name, "app:shop:context7");
        let counters: Vec<String> = (0..41).map(|number| format!("perf:thread:r{number:x}")).collect();
        assert!(Contexts::of(&counters).is_err());
    }

    /// As the runtime counts (runtime/contexts.c), so that no program refuses what pisted allows.
    #[test]
    fn every_context_has_its_length() {
        let bytes = |name: &str| Context::of(name).unwrap().longest_bytes();
        assert_eq!(["vpid", "procname", "pthread_id", "ip"].map(bytes), [4, 16, 8, 8]);
        assert_eq!(["uts_ns", "perf:thread:cs", "perf:thread:cycles"].map(bytes), [4, 8, 9]);
        assert_eq!(bytes("app:shop:tenant"), 257);
        assert!(bytes("cgroup_path") >= 256);
    }
}
