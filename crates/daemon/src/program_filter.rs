// SPDX-License-Identifier: MIT OR Apache-2.0
//! Filters that programs evaluate: what a filter says of one event of a program, as the instructions of include/piste/abi/filter.h.
//!
//! Names of fields, labels and types are known here, so a program executes nothing but loads and comparisons. What is the same for all events
//! of a description is decided here: an event that no filter can let pass is not enabled at all.

use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;

use piste_abi::{IntoBytes, piste_instruction};
use piste_ctf::read::schema::Scope;
use piste_ctf::{Element, FieldKind, Label};
use piste_filter::{BitOperator, Comparison, Condition, Field, Filter, FilterError, Operand, Step, Term, Test, Value};
use serde::{Deserialize, Serialize};

use crate::contexts::Filterable;
use crate::description::EventDescription;

/// The filter of a rule: its text is what it is known by.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct RuleFilter(Arc<Parsed>);

#[derive(Debug)]
struct Parsed {
    filter: Filter,
    test_count: usize,
    fields: Vec<String>,
}

impl PartialEq for RuleFilter {
    fn eq(&self, other: &RuleFilter) -> bool {
        self.text() == other.text()
    }
}

impl Eq for RuleFilter {}

impl TryFrom<String> for RuleFilter {
    type Error = FilterError;

    fn try_from(text: String) -> Result<RuleFilter, FilterError> {
        RuleFilter::parse(&text)
    }
}

impl From<RuleFilter> for String {
    fn from(filter: RuleFilter) -> String {
        filter.text().to_owned()
    }
}

impl RuleFilter {
    /// A filter from its text.
    ///
    /// # Errors
    /// It is not one, or asks for what no program knows of its events.
    pub fn parse(text: &str) -> Result<RuleFilter, FilterError> {
        let filter = Filter::parse(text)?;
        let (mut test_count, mut wrong) = (0, None);
        filter.expression().tests(&mut |test| {
            let found = match test {
                Test::Compare { left, right, .. } => check_operand(left).and_then(|()| check_operand(right)),
                Test::Like { operand, .. } => check_operand(operand),
                Test::Exists { position, field } => check_field(*position, field),
            };
            test_count += 1;
            wrong = wrong.take().or(found.err());
        });
        match wrong {
            Some(wrong) => Err(wrong),
            None => Ok(RuleFilter(Arc::new(Parsed {
                fields: fields_of_events(&filter),
                filter,
                test_count,
            }))),
        }
    }

    /// As it was written.
    pub fn text(&self) -> &str {
        self.0.filter.text()
    }

    /// The fields of events that it is about.
    pub fn fields(&self) -> &[String] {
        &self.0.fields
    }

    /// Tests of fields: what is to be translated for each event.
    pub fn test_count(&self) -> usize {
        self.0.test_count
    }
}

/// Each once.
fn fields_of_events(filter: &Filter) -> Vec<String> {
    let mut fields = BTreeSet::new();
    filter.expression().terms(&mut |term| {
        if let Term::Field(field) = term
            && let Some(Step::Name(name)) = field.path.first()
            && of_program(field).is_none()
        {
            fields.insert(name.to_string());
        }
    });
    fields.into_iter().collect()
}

/// Contexts that a program knows, and what is the same for all its events.
#[derive(Clone, Copy)]
enum OfProgram {
    Vtid,
    CpuId,
    Vpid,
    Pid,
    Uid,
    Comm,
    Other(Filterable),
}

/// What a field means that is none of the payload.
fn of_program(field: &Field) -> Option<OfProgram> {
    let [Step::Name(name)] = &*field.path else { return None };
    let is_in = |scope| field.scopes.contains(&scope);
    match &**name {
        "vtid" if is_in(Scope::EventContext) => Some(OfProgram::Vtid),
        "cpu_id" if is_in(Scope::EventContext) => Some(OfProgram::CpuId),
        "vpid" if is_in(Scope::PacketContext) => Some(OfProgram::Vpid),
        "pid" if is_in(Scope::PacketContext) => Some(OfProgram::Pid),
        "uid" if is_in(Scope::PacketContext) => Some(OfProgram::Uid),
        "procname" if is_in(Scope::EventContext) => Some(OfProgram::Comm),
        _ if is_in(Scope::EventContext) => Filterable::of(name).map(OfProgram::Other),
        _ => None,
    }
}

fn check_operand(operand: &Operand) -> Result<(), FilterError> {
    match &operand.term {
        Term::Time => Err(FilterError::at(
            operand.position,
            "a program does not know the time of an event before it records it; filter by $time when you read the trace",
        )),
        Term::Field(field) => check_field(operand.position, field),
        Term::Bits { left, right, .. } => check_operand(left).and_then(|()| check_operand(right)),
        Term::Integer(value) if i64::try_from(*value).is_err() && u64::try_from(*value).is_err() => Err(
            FilterError::at(operand.position, "the number does not fit into 64 bits"),
        ),
        _ => Ok(()),
    }
}

fn check_field(position: usize, field: &Field) -> Result<(), FilterError> {
    if field.scopes.contains(&Scope::Payload) || of_program(field).is_some() {
        return Ok(());
    }
    let name = field.path_text();
    Err(FilterError::at(
        position,
        format!(
            "programs cannot compare the context or header field `{name}`; they can compare pid, uid and the contexts that `piste add-context --list` shows, except ip, those of the processor and those of programs"
        ),
    ))
}

/// The program that evaluates a filter.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs, reason = "as in the packets of its streams")]
pub struct Evaluator {
    pub vpid: i32,
    pub pid: i32,
    pub uid: u32,
}

/// What is recorded of an event of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selection {
    /// Nothing.
    Nothing,
    /// Every occurrence.
    All,
    /// Those that pass, as the message FILTER has it.
    Passing(Rc<[u8]>),
}

/// What lets an event pass that any of the filters lets pass.
///
/// # Errors
/// Where and why the first of them is not for this event.
pub fn select<'f>(
    filters: impl IntoIterator<Item = &'f RuleFilter>,
    event: &EventDescription,
    evaluator: Evaluator,
) -> Result<Selection, FilterError> {
    let described = Described::new(event, evaluator);
    let conditions: Result<Vec<_>, FilterError> = filters
        .into_iter()
        .map(|filter| filter.0.filter.expression().of_class(&mut |test| described.test(test)))
        .collect();
    match Condition::any(conditions?) {
        Condition::Always(false) => Ok(Selection::Nothing),
        Condition::Always(true) => Ok(Selection::All),
        condition => Assembly::default()
            .assemble(&condition, &described)
            .map(Selection::Passing),
    }
}

/// A test, as instructions: what puts its operands on the stack, then the test itself, which leads nowhere yet.
#[derive(Debug)]
struct Instructions {
    operands: Vec<piste_instruction>,
    test: piste_instruction,
    /// What the operand of the last instruction that needs one names: a text, or a pattern.
    text: Option<Vec<u8>>,
}

impl Instructions {
    fn compare(operands: Vec<piste_instruction>, comparison: Comparison) -> Instructions {
        Instructions {
            operands,
            test: piste_instruction {
                comparison: code_of(comparison),
                ..opcode(piste_abi::PISTE_FILTER_COMPARE)
            },
            text: None,
        }
    }
}

/// An operand, as it is known for an event.
enum Known<'f> {
    /// The same for every occurrence.
    Constant(Value<'f>),
    /// An integer whose values have names.
    Labelled(Vec<piste_instruction>, &'f [Label]),
    Integer(Vec<piste_instruction>),
    Float(Vec<piste_instruction>),
    Text(Vec<piste_instruction>),
    /// A text that is written in the filter would be a constant: this one is the name of the thread and the like.
    Nothing,
}

/// An event, with the places of its fields.
struct Described<'e> {
    event: &'e EventDescription,
    fields: Vec<&'e piste_ctf::Field>,
    evaluator: Evaluator,
    /// Where each field begins.
    positions: Vec<Position>,
    /// What makes each place behind the first.
    places: Vec<piste_instruction>,
}

/// Where a field begins.
#[derive(Clone, Copy, Debug)]
struct Position {
    place: u8,
    offset: u32,
}

impl Position {
    fn load(self, code: u32, kind: u8) -> piste_instruction {
        piste_instruction {
            kind,
            place: self.place,
            offset: self.offset,
            ..opcode(code)
        }
    }
}

impl<'e> Described<'e> {
    fn new(event: &'e EventDescription, evaluator: Evaluator) -> Described<'e> {
        let (mut positions, mut places) = (Vec::new(), Vec::new());
        let mut position = Position { place: 0, offset: 0 };
        let fields = event.filtered_fields();
        for field in &fields {
            positions.push(position);
            match length(&field.kind) {
                Length::Bytes(bytes) => position.offset += bytes,
                Length::Dynamic(kind) => {
                    places.push(position.load(piste_abi::PISTE_FILTER_PLACE, kind));
                    position = Position {
                        place: places.len() as u8,
                        offset: 0,
                    };
                }
            }
        }
        Described {
            event,
            fields,
            evaluator,
            positions,
            places,
        }
    }

    fn test(&self, test: &Test) -> Result<Condition<Instructions>, FilterError> {
        match test {
            Test::Compare {
                left,
                position,
                comparison,
                right,
            } => {
                let (left, right) = (self.operand(left)?, self.operand(right)?);
                compare(left, *comparison, right, *position)
            }
            Test::Like {
                operand,
                is_negated,
                pattern,
                ..
            } => Ok(match self.operand(operand)? {
                Known::Constant(value) => Condition::Always(value.is_like(pattern, *is_negated)),
                Known::Labelled(value, labels) => {
                    let is_like = |label: &Label| pattern.matches(label.name.as_bytes());
                    let any = any_of(&value, labels.iter().filter(|label| is_like(label)));
                    if *is_negated { any.not() } else { any }
                }
                Known::Text(text) => Condition::Test(Instructions {
                    operands: text,
                    test: opcode(match is_negated {
                        true => piste_abi::PISTE_FILTER_UNLIKE,
                        false => piste_abi::PISTE_FILTER_LIKE,
                    }),
                    text: Some(encoded(pattern)),
                }),
                Known::Integer(_) | Known::Float(_) | Known::Nothing => Condition::Always(false),
            }),
            Test::Exists { field, .. } => Ok(match self.exists(field) {
                Existence::Certain(is_there) => Condition::Always(is_there),
                Existence::Depends(operands) => Condition::Test(Instructions {
                    operands,
                    test: opcode(piste_abi::PISTE_FILTER_EXISTS),
                    text: None,
                }),
            }),
        }
    }

    fn operand<'o>(&'o self, operand: &'o Operand) -> Result<Known<'o>, FilterError> {
        if let Some(constant) = operand.constant() {
            return Ok(Known::Constant(constant));
        }
        let integer = |value: i128| Ok(Known::Constant(Value::Integer(value)));
        match &operand.term {
            Term::Name => Ok(Known::Constant(Value::Text(self.event.name.as_bytes()))),
            Term::Cpu => Ok(Known::Integer(vec![context(piste_abi::PISTE_FILTER_CPU_ID)])),
            Term::Tid => Ok(Known::Integer(vec![context(piste_abi::PISTE_FILTER_VTID)])),
            Term::Comm => Ok(Known::Text(vec![context(piste_abi::PISTE_FILTER_COMM)])),
            Term::Pid => integer(self.evaluator.pid.into()),
            Term::Field(field) => Ok(self.field(field)),
            Term::Bits {
                left,
                operator,
                position,
                right,
            } => {
                let (left, right) = (self.operand(left)?, self.operand(right)?);
                let (Some(mut operands), Some(others)) = (left.pushed(), right.pushed()) else {
                    return Ok(Known::Nothing);
                };
                operands.extend(others);
                operands.push(piste_instruction {
                    kind: code_of_operator(*operator) as u8,
                    ..opcode(piste_abi::PISTE_FILTER_BITS)
                });
                match depth(&operands) > piste_abi::PISTE_FILTER_DEPTH_MAX as usize {
                    true => Err(FilterError::at(
                        *position,
                        "the operators are nested too deeply for a program to evaluate them",
                    )),
                    false => Ok(Known::Integer(operands)),
                }
            }
            Term::Integer(_) | Term::Float(_) | Term::Text(_) | Term::Time => Ok(Known::Nothing),
        }
    }

    fn payload(&self, field: &Field) -> Option<usize> {
        let Some(Step::Name(name)) = field.path.first() else {
            return None;
        };
        let is_searched = field.scopes.contains(&Scope::Payload);
        self.fields.iter().position(|known| is_searched && known.name == **name)
    }

    fn field(&self, field: &Field) -> Known<'_> {
        let Some(index) = self.payload(field) else {
            return self.of_program(field);
        };
        let position = self.positions[index];
        let number = |element: Element, push| match element {
            Element::Float32 | Element::Float64 => Known::Float(vec![push]),
            _ => Known::Integer(vec![push]),
        };
        let field_of = |element: Element| position.load(piste_abi::PISTE_FILTER_FIELD, kind_of(element));
        let text = |kind: u32| Known::Text(vec![position.load(piste_abi::PISTE_FILTER_TEXT, kind as u8)]);
        match (&self.fields[index].kind, &field.path[1..]) {
            (FieldKind::Scalar { element, .. }, []) => number(*element, field_of(*element)),
            (FieldKind::Enum { labels }, []) => Known::Labelled(vec![field_of(Element::Int32)], labels),
            (FieldKind::Array { element, count, .. }, [Step::Index(index)]) if *index < u64::from(*count) => {
                let mut push = field_of(*element);
                push.offset += *index as u32 * element.bytes();
                number(*element, push)
            }
            (FieldKind::Sequence { element, .. }, [Step::Index(index)]) => {
                let mut push = position.load(piste_abi::PISTE_FILTER_ELEMENT, kind_of(*element));
                push.operand = *index;
                number(*element, push)
            }
            (FieldKind::String, []) => text(piste_abi::PISTE_FILTER_STRING),
            (FieldKind::Text, []) => text(piste_abi::PISTE_FILTER_COUNTED),
            _ => Known::Nothing,
        }
    }

    fn of_program(&self, field: &Field) -> Known<'_> {
        let integer = |value: i128| Known::Constant(Value::Integer(value));
        match of_program(field) {
            Some(OfProgram::Vtid) => Known::Integer(vec![context(piste_abi::PISTE_FILTER_VTID)]),
            Some(OfProgram::CpuId) => Known::Integer(vec![context(piste_abi::PISTE_FILTER_CPU_ID)]),
            Some(OfProgram::Vpid) => integer(self.evaluator.vpid.into()),
            Some(OfProgram::Pid) => integer(self.evaluator.pid.into()),
            Some(OfProgram::Uid) => integer(self.evaluator.uid.into()),
            Some(OfProgram::Comm) => Known::Text(vec![context(piste_abi::PISTE_FILTER_COMM)]),
            Some(OfProgram::Other(other)) => {
                let push = piste_instruction {
                    offset: other.kind,
                    operand: other.config,
                    ..context(piste_abi::PISTE_FILTER_OTHER)
                };
                match other.is_text {
                    true => Known::Text(vec![push]),
                    false => Known::Integer(vec![push]),
                }
            }
            None => Known::Nothing,
        }
    }

    fn exists(&self, field: &Field) -> Existence {
        let Some(index) = self.payload(field) else {
            return Existence::Certain(of_program(field).is_some());
        };
        if field.path.len() == 1 {
            return Existence::Certain(true);
        }
        match self.field(field) {
            Known::Integer(push) | Known::Float(push)
                if matches!(self.fields[index].kind, FieldKind::Sequence { .. }) =>
            {
                Existence::Depends(push)
            }
            Known::Nothing => Existence::Certain(false),
            _ => Existence::Certain(true),
        }
    }
}

/// Whether a field is there.
enum Existence {
    Certain(bool),
    Depends(Vec<piste_instruction>),
}

impl Known<'_> {
    /// What puts an integer on the stack.
    fn pushed(self) -> Option<Vec<piste_instruction>> {
        match self {
            Known::Constant(Value::Integer(value)) => Some(vec![push_integer(value)]),
            Known::Integer(push) | Known::Labelled(push, _) => Some(push),
            _ => None,
        }
    }
}

fn compare(
    left: Known<'_>,
    comparison: Comparison,
    right: Known<'_>,
    position: usize,
) -> Result<Condition<Instructions>, FilterError> {
    use Known::{Constant, Float, Integer, Labelled, Nothing, Text};
    let two = |mut one: Vec<piste_instruction>, other: Vec<piste_instruction>| {
        one.extend(other);
        Ok(Condition::Test(Instructions::compare(one, comparison)))
    };
    match (left, right) {
        (Constant(one), Constant(other)) => Ok(Condition::Always(one.compares(comparison, other))),
        (left @ Constant(_), right) => compare(right, comparison.turned(), left, position),
        (Labelled(value, labels), Constant(Value::Text(text))) => {
            let named = || labels.iter().filter(|label| label.name.as_bytes() == text);
            Ok(match comparison {
                Comparison::Equal => any_of(&value, named()),
                Comparison::NotEqual => any_of(&value, named()).not(),
                Comparison::Bits => match named().fold(0, |bits, label| bits | label.value) {
                    0 => Condition::Always(false),
                    bits => compare_integer(value, comparison, bits.into()),
                },
                _ => Condition::Always(false),
            })
        }
        (Labelled(..), Text(_)) | (Text(_), Labelled(..)) => Err(FilterError::at(
            position,
            "a program can compare an enumeration only with a number or a string constant, not with a text field",
        )),
        (Integer(push) | Labelled(push, _), Constant(Value::Integer(value))) => {
            Ok(compare_integer(push, comparison, value))
        }
        (Float(push), Constant(Value::Integer(value))) => two(push, vec![push_integer(value)]),
        (Integer(push) | Labelled(push, _) | Float(push), Constant(Value::Float(value))) => {
            two(push, vec![with_operand(piste_abi::PISTE_FILTER_FLOAT, value.to_bits())])
        }
        (Text(mut operands), Constant(Value::Text(text))) => {
            operands.push(opcode(piste_abi::PISTE_FILTER_CONSTANT));
            Ok(Condition::Test(Instructions {
                text: Some(text.to_vec()),
                ..Instructions::compare(operands, comparison)
            }))
        }
        (Integer(one) | Labelled(one, _) | Float(one), Integer(other) | Labelled(other, _) | Float(other))
        | (Text(one), Text(other)) => two(one, other),
        (Text(_), _) | (_, Text(_)) | (Nothing, _) | (_, Nothing) | (_, Constant(_)) => Ok(Condition::Always(false)),
    }
}

/// Compares an integer with a constant. One instruction does it where that is a field at a fixed offset: the usual test.
fn compare_integer(push: Vec<piste_instruction>, comparison: Comparison, value: i128) -> Condition<Instructions> {
    let is_signed = |kind: u8| u32::from(kind) <= piste_abi::PISTE_ELEMENT_INT64;
    let is_plain = |field: &piste_instruction| {
        u32::from(field.opcode) == piste_abi::PISTE_FILTER_FIELD
            && field.place == 0
            && match is_signed(field.kind) {
                true => i64::try_from(value).is_ok(),
                false => u64::try_from(value).is_ok(),
            }
    };
    match &*push {
        [field] if is_plain(field) => Condition::Test(Instructions {
            operands: Vec::new(),
            test: piste_instruction {
                opcode: piste_abi::PISTE_FILTER_COMPARE_FIELD as u8,
                comparison: code_of(comparison),
                end: field.offset + bytes_of(field.kind),
                operand: value as u64,
                ..*field
            },
            text: None,
        }),
        _ => Condition::Test(Instructions::compare(
            [push, vec![push_integer(value)]].concat(),
            comparison,
        )),
    }
}

/// The value is that of one of the labels.
fn any_of<'l>(value: &[piste_instruction], labels: impl Iterator<Item = &'l Label>) -> Condition<Instructions> {
    let is_it = |label: &Label| compare_integer(value.to_vec(), Comparison::Equal, (label.value as i32).into());
    Condition::any(labels.map(is_it).collect())
}

/// How far a test leads.
type Target = u16;
const ACCEPT: Target = piste_abi::PISTE_FILTER_ACCEPT as Target;
const REJECT: Target = piste_abi::PISTE_FILTER_REJECT as Target;

/// Instructions in the making. Targets are numbers of labels until all of them are placed.
#[derive(Default)]
struct Assembly {
    instructions: Vec<piste_instruction>,
    texts: Vec<u8>,
    labels: Vec<Target>,
}

impl Assembly {
    fn assemble(
        mut self,
        condition: &Condition<Instructions>,
        described: &Described<'_>,
    ) -> Result<Rc<[u8]>, FilterError> {
        let place_count = places_of(condition);
        self.instructions.extend(&described.places[..place_count]);
        self.add(condition, ACCEPT, REJECT);
        let count = self.instructions.len();
        if count > piste_abi::PISTE_FILTER_INSTRUCTION_COUNT_MAX as usize
            || self.texts.len() > piste_abi::PISTE_FILTER_TEXT_BYTES_MAX as usize
        {
            return Err(FilterError::at(
                0,
                format!(
                    "it takes {count} instructions and {} bytes of texts, which is too much for a program to evaluate",
                    self.texts.len()
                ),
            ));
        }
        let labels = &self.labels;
        let placed = |target: Target| labels.get(usize::from(target)).copied().unwrap_or(target);
        for instruction in &mut self.instructions[place_count..] {
            if u32::from(instruction.opcode) >= piste_abi::PISTE_FILTER_COMPARE {
                instruction.if_true = placed(instruction.if_true);
                instruction.if_false = placed(instruction.if_false);
            }
        }
        let header = piste_abi::piste_filter {
            instruction_count: count as u32,
            text_bytes: self.texts.len() as u32,
        };
        let mut bytes = header.as_bytes().to_vec();
        bytes.extend(self.instructions.iter().flat_map(IntoBytes::as_bytes));
        bytes.extend(self.texts);
        Ok(bytes.into())
    }

    /// What goes on at `if_true` or `if_false`.
    fn add(&mut self, condition: &Condition<Instructions>, if_true: Target, if_false: Target) {
        match condition {
            Condition::Always(_) => unreachable!("it is decided before"),
            Condition::Not(inner) => self.add(inner, if_false, if_true),
            Condition::And(parts) => self.add_all(parts, |next| (next, if_false), (if_true, if_false)),
            Condition::Or(parts) => self.add_all(parts, |next| (if_true, next), (if_true, if_false)),
            Condition::Test(test) => {
                let operand = test.text.as_ref().map(|text| self.add_text(text));
                let first = self.instructions.len();
                self.instructions.extend(&test.operands);
                self.instructions.push(piste_instruction {
                    if_true,
                    if_false,
                    ..test.test
                });
                let named = self.instructions[first..].iter_mut().rev().find(|instruction| {
                    [
                        piste_abi::PISTE_FILTER_CONSTANT,
                        piste_abi::PISTE_FILTER_LIKE,
                        piste_abi::PISTE_FILTER_UNLIKE,
                    ]
                    .contains(&instruction.opcode.into())
                });
                if let (Some(named), Some(operand)) = (named, operand) {
                    named.operand = operand;
                }
            }
        }
    }

    fn add_all(
        &mut self,
        parts: &[Condition<Instructions>],
        between: impl Fn(Target) -> (Target, Target),
        last: (Target, Target),
    ) {
        for (index, part) in parts.iter().enumerate() {
            if index + 1 == parts.len() {
                self.add(part, last.0, last.1);
                break;
            }
            let label = self.labels.len() as Target;
            self.labels.push(0);
            let (if_true, if_false) = between(label);
            self.add(part, if_true, if_false);
            self.labels[usize::from(label)] = self.instructions.len() as Target;
        }
    }

    fn add_text(&mut self, text: &[u8]) -> u64 {
        let begin = self.texts.len() as u64;
        self.texts.extend(text);
        (text.len() as u64) << 32 | begin
    }
}

/// How many places behind the first are needed.
fn places_of(condition: &Condition<Instructions>) -> usize {
    match condition {
        Condition::Always(_) => 0,
        Condition::Not(inner) => places_of(inner),
        Condition::And(parts) | Condition::Or(parts) => parts.iter().map(places_of).max().unwrap_or(0),
        Condition::Test(test) => test
            .operands
            .iter()
            .filter(|operand| u32::from(operand.opcode) <= piste_abi::PISTE_FILTER_TEXT)
            .map(|operand| operand.place.into())
            .max()
            .unwrap_or(0),
    }
}

/// How deep the stack gets.
fn depth(operands: &[piste_instruction]) -> usize {
    let (mut depth, mut most) = (0, 0);
    for operand in operands {
        match operand.opcode.into() {
            piste_abi::PISTE_FILTER_BITS => depth -= 1,
            _ => depth += 1,
        }
        most = most.max(depth);
    }
    most
}

fn encoded(pattern: &piste_filter::Pattern) -> Vec<u8> {
    use piste_filter::pattern::One;
    let mut bytes = Vec::new();
    for (index, part) in pattern.parts().enumerate() {
        if index > 0 {
            bytes.push(piste_abi::PISTE_PATTERN_STAR as u8);
        }
        for one in part {
            match one {
                One::Byte(byte) => bytes.extend([piste_abi::PISTE_PATTERN_BYTE as u8, byte]),
                One::Any => bytes.push(piste_abi::PISTE_PATTERN_ANY as u8),
                One::In(set) => {
                    bytes.push(piste_abi::PISTE_PATTERN_IN as u8);
                    bytes.extend(set.to_le_bytes());
                }
                One::NotIn(set) => {
                    bytes.push(piste_abi::PISTE_PATTERN_NOT_IN as u8);
                    bytes.extend(set.to_le_bytes());
                }
            }
        }
    }
    bytes
}

enum Length {
    Bytes(u32),
    /// The kind of a PLACE instruction behind it.
    Dynamic(u8),
}

fn length(kind: &FieldKind) -> Length {
    match kind {
        FieldKind::Scalar { element, .. } | FieldKind::Named { element, .. } => Length::Bytes(element.bytes()),
        FieldKind::Enum { .. } => Length::Bytes(Element::Int32.bytes()),
        FieldKind::Array { element, count, .. } => Length::Bytes(element.bytes() * count),
        FieldKind::FixedText { bytes } => Length::Bytes(*bytes),
        FieldKind::Sequence { element, .. } => Length::Dynamic(kind_of(*element)),
        FieldKind::Text => Length::Dynamic(piste_abi::PISTE_FILTER_COUNTED as u8),
        FieldKind::String => Length::Dynamic(piste_abi::PISTE_FILTER_STRING as u8),
        FieldKind::Structures { .. } | FieldKind::Strings | FieldKind::Dynamic => {
            unreachable!("programs have no such fields")
        }
    }
}

/// Of an integer.
fn bytes_of(kind: u8) -> u32 {
    match kind.into() {
        piste_abi::PISTE_ELEMENT_INT8 | piste_abi::PISTE_ELEMENT_UINT8 => 1,
        piste_abi::PISTE_ELEMENT_INT16 | piste_abi::PISTE_ELEMENT_UINT16 => 2,
        piste_abi::PISTE_ELEMENT_INT32 | piste_abi::PISTE_ELEMENT_UINT32 => 4,
        _ => 8,
    }
}

fn kind_of(element: Element) -> u8 {
    let kind = match element {
        Element::Int8 => piste_abi::PISTE_ELEMENT_INT8,
        Element::Int16 => piste_abi::PISTE_ELEMENT_INT16,
        Element::Int32 => piste_abi::PISTE_ELEMENT_INT32,
        Element::Int64 => piste_abi::PISTE_ELEMENT_INT64,
        Element::Uint8 => piste_abi::PISTE_ELEMENT_UINT8,
        Element::Uint16 => piste_abi::PISTE_ELEMENT_UINT16,
        Element::Uint32 => piste_abi::PISTE_ELEMENT_UINT32,
        Element::Uint64 => piste_abi::PISTE_ELEMENT_UINT64,
        Element::Float32 => piste_abi::PISTE_ELEMENT_FLOAT32,
        Element::Float64 => piste_abi::PISTE_ELEMENT_FLOAT64,
    };
    kind as u8
}

fn code_of(comparison: Comparison) -> u8 {
    let code = match comparison {
        Comparison::Equal => piste_abi::PISTE_COMPARE_EQUAL,
        Comparison::NotEqual => piste_abi::PISTE_COMPARE_NOT_EQUAL,
        Comparison::Less => piste_abi::PISTE_COMPARE_LESS,
        Comparison::LessOrEqual => piste_abi::PISTE_COMPARE_LESS_OR_EQUAL,
        Comparison::Greater => piste_abi::PISTE_COMPARE_GREATER,
        Comparison::GreaterOrEqual => piste_abi::PISTE_COMPARE_GREATER_OR_EQUAL,
        Comparison::Bits => piste_abi::PISTE_COMPARE_BITS,
    };
    code as u8
}

fn push_integer(value: i128) -> piste_instruction {
    match i64::try_from(value) {
        Ok(value) => with_operand(piste_abi::PISTE_FILTER_SIGNED, value as u64),
        Err(_) => with_operand(piste_abi::PISTE_FILTER_UNSIGNED, value as u64),
    }
}

fn code_of_operator(operator: BitOperator) -> u32 {
    match operator {
        BitOperator::And => piste_abi::PISTE_BITS_AND,
        BitOperator::Or => piste_abi::PISTE_BITS_OR,
        BitOperator::Xor => piste_abi::PISTE_BITS_XOR,
        BitOperator::ShiftLeft => piste_abi::PISTE_BITS_SHIFT_LEFT,
        BitOperator::ShiftRight => piste_abi::PISTE_BITS_SHIFT_RIGHT,
    }
}

fn context(kind: u32) -> piste_instruction {
    piste_instruction {
        kind: kind as u8,
        ..opcode(piste_abi::PISTE_FILTER_CONTEXT)
    }
}

fn with_operand(code: u32, operand: u64) -> piste_instruction {
    piste_instruction {
        operand,
        ..opcode(code)
    }
}

fn opcode(opcode: u32) -> piste_instruction {
    piste_instruction {
        opcode: opcode as u8,
        kind: 0,
        comparison: 0,
        place: 0,
        if_true: 0,
        if_false: 0,
        offset: 0,
        end: 0,
        operand: 0,
    }
}

#[cfg(test)]
mod tests {
    use piste_abi::FromBytes;
    use piste_ctf::Base;

    use super::*;

    const PROGRAM: Evaluator = Evaluator {
        vpid: 5,
        pid: 1005,
        uid: 1000,
    };

    fn event() -> EventDescription {
        let field = |name: &str, kind| piste_ctf::Field {
            name: name.into(),
            kind,
        };
        let base = Base::Decimal;
        let scalar = |name: &str, element| field(name, FieldKind::Scalar { element, base });
        let label = |name: &str, value| Label {
            name: name.into(),
            value,
        };
        EventDescription {
            index: 0,
            name: "shop:order".into(),
            level: 13,
            fields: vec![
                scalar("id", Element::Int32),
                field("customer", FieldKind::String),
                field(
                    "kind",
                    FieldKind::Enum {
                        labels: vec![label("tea", 1), label("coffee", 2), label("green tea", 1)],
                    },
                ),
                field(
                    "prices",
                    FieldKind::Sequence {
                        element: Element::Float64,
                        base,
                    },
                ),
                field(
                    "sizes",
                    FieldKind::Array {
                        element: Element::Uint16,
                        base,
                        count: 3,
                    },
                ),
                field("note", FieldKind::Text),
            ],
            nowrite: vec![
                (0, scalar("before", Element::Int64)),
                (6, scalar("behind", Element::Int8)),
            ],
        }
    }

    fn selected(filters: &[&str]) -> Selection {
        let filters: Vec<RuleFilter> = filters.iter().map(|text| RuleFilter::parse(text).unwrap()).collect();
        select(&filters, &event(), PROGRAM).unwrap()
    }

    /// The instructions as text, one a line.
    fn shown(filters: &[&str]) -> Vec<String> {
        let Selection::Passing(bytes) = selected(filters) else {
            panic!("{filters:?} is decided")
        };
        let (header, mut rest) = piste_abi::piste_filter::read_from_prefix(&bytes).unwrap();
        let mut lines = Vec::new();
        for _ in 0..header.instruction_count {
            let (one, after) = piste_instruction::read_from_prefix(rest).unwrap();
            rest = after;
            let target = |target: u32| match target {
                piste_abi::PISTE_FILTER_ACCEPT => "yes".to_owned(),
                piste_abi::PISTE_FILTER_REJECT => "no".to_owned(),
                index => index.to_string(),
            };
            let (begin, length) = (one.operand as u32 as usize, (one.operand >> 32) as usize);
            let at = format!("{}+{}", one.place, one.offset);
            let leads = format!("? {} : {}", target(one.if_true.into()), target(one.if_false.into()));
            let comparison = match one.comparison.into() {
                piste_abi::PISTE_COMPARE_LESS => "<",
                piste_abi::PISTE_COMPARE_LESS_OR_EQUAL => "<=",
                piste_abi::PISTE_COMPARE_EQUAL => "==",
                piste_abi::PISTE_COMPARE_NOT_EQUAL => "!=",
                piste_abi::PISTE_COMPARE_GREATER => ">",
                piste_abi::PISTE_COMPARE_BITS => "&",
                _ => "?",
            };
            let texts = header.text_bytes as usize;
            let text = || String::from_utf8_lossy(&bytes[bytes.len() - texts..][begin..begin + length]).into_owned();
            lines.push(match one.opcode.into() {
                piste_abi::PISTE_FILTER_PLACE => format!("place {} {at}", one.kind),
                piste_abi::PISTE_FILTER_FIELD => format!("field {} {at}", one.kind),
                piste_abi::PISTE_FILTER_ELEMENT => format!("element {} {at} [{}]", one.kind, one.operand),
                piste_abi::PISTE_FILTER_TEXT => format!("text {} {at}", one.kind),
                piste_abi::PISTE_FILTER_CONTEXT => format!("context {}", one.kind),
                piste_abi::PISTE_FILTER_SIGNED => format!("signed {}", one.operand as i64),
                piste_abi::PISTE_FILTER_UNSIGNED => format!("unsigned {}", one.operand),
                piste_abi::PISTE_FILTER_FLOAT => format!("float {}", f64::from_bits(one.operand)),
                piste_abi::PISTE_FILTER_CONSTANT => format!("constant {:?}", text()),
                piste_abi::PISTE_FILTER_BITS => "bits".into(),
                piste_abi::PISTE_FILTER_COMPARE => format!("{comparison} {leads}"),
                piste_abi::PISTE_FILTER_COMPARE_FIELD => {
                    format!("field {} {at} {comparison} {} {leads}", one.kind, one.operand as i64)
                }
                piste_abi::PISTE_FILTER_LIKE => format!("like {:?} {leads}", text()),
                piste_abi::PISTE_FILTER_UNLIKE => format!("unlike {:?} {leads}", text()),
                piste_abi::PISTE_FILTER_EXISTS => format!("exists {leads}"),
                other => format!("opcode {other}"),
            });
        }
        lines
    }

    #[test]
    fn a_test_leads_to_the_next_one_or_to_the_end() {
        assert_eq!(shown(&["id == 5"]), ["field 3 0+8 == 5 ? yes : no"]);
        assert_eq!(
            shown(&["id > 1 && (id < 5 || !(5 > id))"]),
            [
                "field 3 0+8 > 1 ? 1 : no",
                "field 3 0+8 < 5 ? yes : 2",
                "field 3 0+8 < 5 ? no : yes"
            ]
        );
        // Any of several filters.
        assert_eq!(
            shown(&["id == 5", "id == 6 && id != 7"])[..2],
            ["field 3 0+8 == 5 ? yes : 1", "field 3 0+8 == 6 ? 2 : no"]
        );
        // Fields that are only for filters.
        assert_eq!(shown(&["before == 5"]), ["field 4 0+0 == 5 ? yes : no"]);
        assert_eq!(shown(&["behind == 5"])[3..4], ["field 1 3+0"]);
        // A constant that the field cannot hold.
        assert_eq!(
            shown(&["id < 18446744073709551615"]),
            ["field 3 0+8", "unsigned 18446744073709551615", "< ? yes : no"]
        );
    }

    #[test]
    fn fields_behind_others_of_no_fixed_size_are_found_from_places() {
        assert_eq!(
            shown(&["sizes[1] == 7"]),
            [
                "place 16 0+12",
                "place 10 1+4",
                "field 6 2+2",
                "signed 7",
                "== ? yes : no"
            ]
        );
        assert_eq!(
            shown(&["prices[3] > 1.5"])[1..],
            ["element 10 1+4 [3]", "float 1.5", "> ? yes : no"]
        );
        assert_eq!(
            shown(&["note =~ \"a*\""])[2..],
            ["text 17 2+6", "like \"\\u{1}a\\u{5}\" ? yes : no"]
        );
        assert_eq!(
            shown(&["customer == 'ada'"]),
            ["text 16 0+12", "constant \"ada\"", "== ? yes : no"]
        );
        assert_eq!(
            shown(&["exists(prices[2])"])[1..],
            ["element 10 1+4 [2]", "exists ? yes : no"]
        );
    }

    #[test]
    fn labels_are_numbers_to_a_program() {
        let first = ["field 3 1+0", "signed 2"];
        assert_eq!(shown(&["kind == 'coffee'"])[1..], [first[0], first[1], "== ? yes : no"]);
        assert_eq!(shown(&["kind != 'coffee'"])[1..], [first[0], first[1], "== ? no : yes"]);
        assert_eq!(shown(&["kind & 'coffee'"])[1..], [first[0], first[1], "& ? yes : no"]);
        assert_eq!(
            shown(&["kind =~ '*tea'"])[1..],
            [
                "field 3 1+0",
                "signed 1",
                "== ? yes : 4",
                "field 3 1+0",
                "signed 1",
                "== ? yes : no"
            ]
        );
        assert_eq!(shown(&["(kind & 3) == 1"])[1..4], ["field 3 1+0", "signed 3", "bits"]);
    }

    #[test]
    fn what_is_the_same_for_all_events_is_decided_before() {
        for (filter, expected) in [
            ("name == 'shop:order'", Selection::All),
            ("$pid == 1005 && vpid == 5 && uid == 1000", Selection::All),
            ("$pid == 1", Selection::Nothing),
            ("customer > 5", Selection::Nothing),
            ("nobody == 1", Selection::Nothing),
            ("!(nobody == 1)", Selection::All),
            (
                "exists(kind) && !exists(kinds) && exists(sizes[2]) && !exists(sizes[3])",
                Selection::All,
            ),
            ("sizes == 1 || sizes[3] == 1 || id[0] == 1", Selection::Nothing),
            ("kind == 'water'", Selection::Nothing),
        ] {
            assert_eq!(selected(&[filter]), expected, "{filter}");
        }
        assert_eq!(selected(&["id == 1", "name =~ 'shop:*'"]), Selection::All);
        assert_eq!(selected(&[]), Selection::Nothing);
    }

    #[test]
    fn what_no_program_can_evaluate_is_refused_with_its_place() {
        for (filter, position, what) in [
            ("id == 1 && $time > 5", 11, "time"),
            ("$event_header.id == 1", 0, "id"),
            ("id < 99999999999999999999", 5, "64 bits"),
            ("id <", 4, "expected"),
        ] {
            let error = RuleFilter::parse(filter).expect_err(filter);
            assert_eq!(error.position, position, "{filter}: {error}");
            assert!(error.reason.contains(what), "{filter}: {error}");
        }
        let nested = "(1 & ".repeat(9) + "id" + &")".repeat(9) + " == 1";
        let filter = RuleFilter::parse(&nested).unwrap();
        assert!(select([&filter], &event(), PROGRAM).is_err());
        let long = vec!["id == 1"; 1000].join(" || ");
        assert!(matches!(selected(&[&long]), Selection::Passing(_)));
        let filter = RuleFilter::parse(&vec!["kind =~ '*tea'"; 600].join(" || ")).unwrap();
        assert!(select([&filter], &event(), PROGRAM).is_err());
    }
}
