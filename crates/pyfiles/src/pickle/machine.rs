//! The stack machine that a pickle is a program for, with every instruction that would run Python taken out.

use std::sync::Arc;

use num_bigint::BigInt;

use super::globals;
use super::heap::{Heap, Node, Slot, Storage};
use super::memo::Memo;
use super::opcode as op;
use crate::buffer::Buffer;
use crate::error::{Problem, ReadError, Result};
use crate::limits::Meter;

/// Python itself refuses to turn longer texts into numbers, which takes time by the square of their length.
const MAX_DIGITS: usize = 4300;

/// Finds the storage that a torch pickle refers to by name.
pub(crate) type FindStorage<'a> = &'a mut dyn FnMut(&StorageId<'_>, usize) -> Result<Storage>;

/// How a torch pickle names a storage.
pub(crate) struct StorageId<'a> {
    /// `None` for an untyped storage.
    pub(crate) dtype: Option<crate::dtype::DType>,
    pub(crate) key: &'a str,
    /// In elements; bytes for an untyped storage.
    pub(crate) len: usize,
}

/// The end of a pickle: its objects, the outermost of them, and where the stream goes on.
pub(crate) struct Loaded {
    pub(crate) heap: Heap,
    pub(crate) root: Slot,
    pub(crate) end: usize,
}

pub(crate) struct Machine<'a> {
    pub(super) source: &'a Buffer,
    pub(super) next: usize,
    /// Where the opcode is that is being run.
    pub(super) at: usize,
    pub(super) heap: Heap,
    stack: Vec<Slot>,
    marks: Vec<usize>,
    memo: Memo,
    /// Texts on their way into the heap.
    scratch: Vec<u8>,
    pub(super) find_storage: FindStorage<'a>,
    pub(super) meter: &'a mut Meter,
    /// How many streams this one is inside of.
    pub(super) nesting: usize,
}

impl<'a> Machine<'a> {
    pub(crate) fn new(
        source: &'a Buffer,
        start: usize,
        find_storage: FindStorage<'a>,
        meter: &'a mut Meter,
    ) -> Self {
        Self {
            source,
            next: start,
            at: start,
            heap: Heap::default(),
            stack: Vec::new(),
            marks: Vec::new(),
            memo: Memo::default(),
            scratch: Vec::new(),
            find_storage,
            meter,
            nesting: 0,
        }
    }

    pub(crate) fn nested(mut self, nesting: usize) -> Self {
        self.nesting = nesting;
        self
    }

    pub(crate) fn run(mut self) -> Result<Loaded> {
        loop {
            self.at = self.next;
            self.meter.step(self.at)?;
            let code = self.take(1)?[0];
            if code == op::STOP {
                let root = self.pop()?;
                return Ok(Loaded { heap: self.heap, root, end: self.next });
            }
            self.execute(code)?;
        }
    }

    fn execute(&mut self, code: u8) -> Result<()> {
        match code {
            op::PROTO => self.proto(),
            op::FRAME => self.frame(),
            op::MARK => self.mark(),
            op::POP => self.discard(),
            op::POP_MARK => self.pop_mark().map(drop),
            op::DUP => self.top().and_then(|slot| self.push(slot)),

            op::NONE => self.push(Slot::None),
            op::NEWTRUE => self.push(Slot::Bool(true)),
            op::NEWFALSE => self.push(Slot::Bool(false)),
            op::BININT => self.u32().and_then(|n| self.push(Slot::Int(i64::from(n as i32)))),
            op::BININT1 => self.u8().and_then(|n| self.push(Slot::Int(n as i64))),
            op::BININT2 => self.u16().and_then(|n| self.push(Slot::Int(n as i64))),
            op::LONG1 => self.u8().and_then(|n| self.long(n)),
            op::LONG4 => self.u32().and_then(|n| self.long(n as usize)),
            op::BINFLOAT => self.float(),
            op::INT | op::LONG | op::FLOAT => self.number_line(code),

            op::SHORT_BINUNICODE => self.u8().and_then(|n| self.text(n)),
            op::BINUNICODE => self.u32().and_then(|n| self.text(n as usize)),
            op::BINUNICODE8 => self.u64().and_then(|n| self.text(n)),
            op::UNICODE => self.unicode_line(),
            op::STRING => self.string_line(),
            op::SHORT_BINSTRING => self.u8().and_then(|n| self.bytes(n, Node::OldStr)),
            op::BINSTRING => self.u32().and_then(|n| self.bytes(n as usize, Node::OldStr)),
            op::SHORT_BINBYTES => self.u8().and_then(|n| self.bytes(n, Node::Bytes)),
            op::BINBYTES => self.u32().and_then(|n| self.bytes(n as usize, Node::Bytes)),
            op::BINBYTES8 | op::BYTEARRAY8 => self.u64().and_then(|n| self.bytes(n, Node::Bytes)),

            op::EMPTY_LIST => self.make(Node::List(Vec::new())),
            op::EMPTY_TUPLE => self.make(Node::Tuple([].into())),
            op::EMPTY_DICT => self.make(Node::Dict(Box::default())),
            op::EMPTY_SET => self.make(Node::Set(Vec::new())),
            op::LIST => self.pop_mark().and_then(|items| self.make(Node::List(items))),
            op::TUPLE => self.pop_mark().and_then(|items| self.make(Node::Tuple(items.into()))),
            op::DICT => self.dict(),
            op::FROZENSET => self.pop_mark().and_then(|items| self.make(Node::FrozenSet(items.into()))),
            op::TUPLE1 => self.short_tuple(1),
            op::TUPLE2 => self.short_tuple(2),
            op::TUPLE3 => self.short_tuple(3),
            op::APPEND => self.pop().and_then(|item| self.append(&[item])),
            op::APPENDS | op::ADDITEMS => self.pop_mark().and_then(|items| self.append(&items)),
            op::SETITEM => self.pop_n(2).and_then(|items| self.set_items(&items)),
            op::SETITEMS => self.pop_mark().and_then(|items| self.set_items(&items)),

            op::PUT => self.line_number().and_then(|place| self.memo_put(place)),
            op::BINPUT => self.u8().and_then(|place| self.memo_put(place as u64)),
            op::LONG_BINPUT => self.u32().and_then(|place| self.memo_put(u64::from(place))),
            op::MEMOIZE => self.memoize(),
            op::GET => self.line_number().and_then(|place| self.memo_get(place)),
            op::BINGET => self.u8().and_then(|place| self.memo_get(place as u64)),
            op::LONG_BINGET => self.u32().and_then(|place| self.memo_get(u64::from(place))),

            op::GLOBAL => self.global_lines(),
            op::STACK_GLOBAL => self.stack_global(),
            op::REDUCE | op::NEWOBJ => self.reduce(),
            op::BUILD => self.build(),
            op::BINPERSID => self.pop().and_then(|id| self.persistent(id)),
            op::READONLY_BUFFER => Ok(()),
            other => Err(self.refuse_opcode(other)),
        }
    }

    fn refuse_opcode(&self, code: u8) -> ReadError {
        let hint = "save plain arrays, numbers, text, lists and dicts";
        let what = match code {
            op::INST | op::OBJ | op::NEWOBJ_EX => "an instance of a Python class",
            op::PERSID => "a reference to something outside the file",
            op::EXT1 | op::EXT2 | op::EXT4 => "a code of Python's extension registry",
            op::NEXT_BUFFER => "a buffer that was kept outside the file (`buffer_callback`)",
            _ => return self.bad("a pickle instruction", format!("byte 0x{code:02x}")),
        };
        ReadError::unsupported(self.at, what, hint)
    }

    // ---- bytes of the stream

    pub(super) fn take(&mut self, len: usize) -> Result<&'a [u8]> {
        let left = self.source.len() - self.next;
        if len > left {
            return Err(ReadError::ends(self.at, len as u64, left));
        }
        let bytes = &self.source[self.next..self.next + len];
        self.next += len;
        Ok(bytes)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let mut bytes = [0; N];
        bytes.copy_from_slice(self.take(N)?);
        Ok(bytes)
    }

    fn u8(&mut self) -> Result<usize> {
        Ok(usize::from(self.take(1)?[0]))
    }

    fn u16(&mut self) -> Result<usize> {
        Ok(usize::from(u16::from_le_bytes(self.array()?)))
    }

    fn u32(&mut self) -> Result<u32> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    /// A length of 64 bits, which must fit what is left.
    fn u64(&mut self) -> Result<usize> {
        let len = u64::from_le_bytes(self.array()?);
        let left = self.source.len() - self.next;
        if len > left as u64 {
            return Err(ReadError::ends(self.at, len, left));
        }
        Ok(len as usize)
    }

    fn line(&mut self) -> Result<&'a [u8]> {
        let rest = &self.source[self.next..];
        match rest.iter().position(|byte| *byte == b'\n') {
            Some(len) => {
                self.next += len + 1;
                Ok(&rest[..len])
            }
            None => Err(self.bad("a line of text", "no end of line before the end of the file")),
        }
    }

    fn text_line(&mut self) -> Result<String> {
        let line = self.line()?.to_vec();
        String::from_utf8(line).map_err(|_| self.bad("a line of text", "bytes that are not UTF-8"))
    }

    fn line_number(&mut self) -> Result<u64> {
        let line = self.text_line()?;
        line.trim_end_matches('\r').parse().map_err(|_| self.bad("a number of the memo", shown(&line)))
    }

    // ---- stack

    pub(super) fn push(&mut self, slot: Slot) -> Result<()> {
        self.meter.object(self.at)?;
        self.stack.push(slot);
        Ok(())
    }

    /// Keeps an object and pushes it.
    pub(super) fn make(&mut self, node: Node) -> Result<()> {
        let slot = self.heap.add(node, self.at);
        self.push(slot)
    }

    fn floor(&self) -> usize {
        self.marks.last().copied().unwrap_or(0)
    }

    pub(super) fn pop(&mut self) -> Result<Slot> {
        if self.stack.len() <= self.floor() {
            return Err(self.bad("a value on the stack", "none"));
        }
        self.stack.pop().ok_or_else(|| self.bad("a value on the stack", "none"))
    }

    fn top(&self) -> Result<Slot> {
        match self.stack.last() {
            Some(slot) if self.stack.len() > self.floor() => Ok(*slot),
            _ => Err(self.bad("a value on the stack", "none")),
        }
    }

    fn pop_n(&mut self, n: usize) -> Result<Vec<Slot>> {
        if self.stack.len() < self.floor() + n {
            return Err(self.bad("more values on the stack", format!("{}", self.stack.len() - self.floor())));
        }
        Ok(self.stack.split_off(self.stack.len() - n))
    }

    fn mark(&mut self) -> Result<()> {
        self.meter.object(self.at)?;
        self.marks.push(self.stack.len());
        Ok(())
    }

    fn pop_mark(&mut self) -> Result<Vec<Slot>> {
        match self.marks.pop() {
            Some(floor) => Ok(self.stack.split_off(floor)),
            None => Err(self.bad("a mark on the stack", "none")),
        }
    }

    /// `POP` takes a value, or a mark with nothing above it.
    fn discard(&mut self) -> Result<()> {
        if self.marks.last() == Some(&self.stack.len()) {
            self.marks.pop();
            return Ok(());
        }
        self.pop().map(drop)
    }

    fn memo_put(&mut self, place: u64) -> Result<()> {
        let slot = self.top()?;
        self.meter.object(self.at)?;
        self.memo.put(place, slot);
        Ok(())
    }

    fn memoize(&mut self) -> Result<()> {
        let slot = self.top()?;
        self.meter.object(self.at)?;
        self.memo.push(slot);
        Ok(())
    }

    fn memo_get(&mut self, place: u64) -> Result<()> {
        match self.memo.get(place) {
            Some(slot) => self.push(slot),
            None => Err(self.bad("an object in the memo", format!("nothing in place {place}"))),
        }
    }

    // ---- simple values

    fn proto(&mut self) -> Result<()> {
        match self.u8()? {
            0..=5 => Ok(()),
            newer => Err(ReadError::unsupported(
                self.at,
                format!("pickle protocol {newer}"),
                "write protocol 5 or older",
            )),
        }
    }

    /// Frames only help readers that cannot see the whole file; the length must still be possible.
    fn frame(&mut self) -> Result<()> {
        self.u64().map(drop)
    }

    fn float(&mut self) -> Result<()> {
        let number = f64::from_be_bytes(self.array()?);
        self.push(Slot::Float(number))
    }

    fn long(&mut self, len: usize) -> Result<()> {
        let number = BigInt::from_signed_bytes_le(self.take(len)?);
        self.push_int(number)
    }

    fn push_int(&mut self, number: BigInt) -> Result<()> {
        match i64::try_from(&number) {
            Ok(small) => self.push(Slot::Int(small)),
            Err(_) => self.make(Node::BigInt(Arc::new(number))),
        }
    }

    fn number_line(&mut self, code: u8) -> Result<()> {
        let line = self.text_line()?;
        let text = line.trim_end_matches('\r');
        match (code, text) {
            (op::INT, "01") => return self.push(Slot::Bool(true)),
            (op::INT, "00") => return self.push(Slot::Bool(false)),
            _ => {}
        }
        if code == op::FLOAT {
            // Rust reads all that Python's repr writes, `inf` and `nan` too.
            return match text.parse() {
                Ok(number) => self.push(Slot::Float(number)),
                Err(_) => Err(self.bad("a number", shown(text))),
            };
        }
        let digits = text.strip_suffix('L').unwrap_or(text);
        let is_decimal = digits.bytes().all(|sign| sign.is_ascii_digit() || b"+-".contains(&sign));
        let number = (is_decimal && digits.len() <= MAX_DIGITS).then(|| digits.parse().ok()).flatten();
        match number {
            Some(number) => self.push_int(number),
            None => Err(self.bad("a whole number", shown(text))),
        }
    }

    fn text(&mut self, len: usize) -> Result<()> {
        // Copied before it is checked: a mapped file might change in between.
        let bytes = self.take(len)?;
        self.scratch.clear();
        self.scratch.extend_from_slice(bytes);
        match std::str::from_utf8(&self.scratch) {
            Ok(text) => {
                let node = Node::Str(text.into());
                self.make(node)
            }
            Err(_) => Err(self.bad("text in UTF-8", "other bytes")),
        }
    }

    fn bytes(&mut self, len: usize, node: fn(Buffer) -> Node) -> Result<()> {
        let start = self.next;
        self.take(len)?;
        let left = self.source.len() - start;
        let bytes = self
            .source
            .slice(start..start + len)
            .ok_or_else(|| ReadError::ends(self.at, len as u64, left))?;
        self.make(node(bytes))
    }

    fn unicode_line(&mut self) -> Result<()> {
        let line = self.line()?;
        match super::escape::raw_unicode(line) {
            Some(text) => self.make(Node::Str(text.into())),
            None => Err(self.bad("text with \\u escapes", "a broken escape")),
        }
    }

    fn string_line(&mut self) -> Result<()> {
        let line = self.line()?;
        match super::escape::quoted(line) {
            Some(bytes) => self.make(Node::OldStr(bytes.into())),
            None => Err(self.bad("a quoted string", shown(&String::from_utf8_lossy(line)))),
        }
    }

    // ---- containers

    fn short_tuple(&mut self, len: usize) -> Result<()> {
        let items = self.pop_n(len)?;
        self.make(Node::Tuple(items.into()))
    }

    fn dict(&mut self) -> Result<()> {
        let items = self.pop_mark()?;
        self.make(Node::Dict(Box::default()))?;
        self.set_items(&items)
    }

    fn append(&mut self, items: &[Slot]) -> Result<()> {
        let target = self.top()?;
        if let Slot::Node(number) = target
            && let Node::List(list) | Node::Set(list) = self.heap.node_mut(number)
        {
            list.extend_from_slice(items);
            return Ok(());
        }
        Err(self.bad("a list or set to add to", self.heap.kind(target)))
    }

    fn set_items(&mut self, items: &[Slot]) -> Result<()> {
        if items.len() % 2 == 1 {
            return Err(self.bad("pairs of keys and values", "an odd number of values"));
        }
        let target = self.top()?;
        if let Slot::Node(number) = target
            && let Node::Dict(dict) = self.heap.node_mut(number)
        {
            dict.entries.extend(items.chunks_exact(2).map(|pair| (pair[0], pair[1])));
            return Ok(());
        }
        Err(self.bad("a dict to add to", self.heap.kind(target)))
    }

    // ---- names

    fn global_lines(&mut self) -> Result<()> {
        let (module, name) = (self.text_line()?, self.text_line()?);
        self.push_global(module.trim_end_matches('\r'), name.trim_end_matches('\r'))
    }

    fn stack_global(&mut self) -> Result<()> {
        let (name, module) = (self.pop()?, self.pop()?);
        let (Some(module), Some(name)) = (self.heap.str(module), self.heap.str(name)) else {
            return Err(self.bad("two names of a Python object", self.heap.kind(name)));
        };
        let (module, name) = (module.to_owned(), name.to_owned());
        self.push_global(&module, &name)
    }

    fn push_global(&mut self, module: &str, name: &str) -> Result<()> {
        match globals::find(module, name) {
            Some(global) => self.make(Node::Global(global)),
            None => {
                let hint = globals::hint(module, name);
                let name = format!("{}.{}", shown(module), shown(name));
                Err(ReadError::new(self.at, Problem::Refused { name, hint }))
            }
        }
    }

    fn reduce(&mut self) -> Result<()> {
        let (arguments, callee) = (self.pop()?, self.pop()?);
        let Some(global) = self.heap.global(callee) else {
            return Err(self.bad("a known function or class", self.heap.kind(callee)));
        };
        let Some(arguments) = self.heap.tuple(arguments) else {
            return Err(self.bad("a tuple of arguments", self.heap.kind(arguments)));
        };
        // More arguments than any known function takes are not worth a copy.
        let arguments: Vec<Slot> = arguments.iter().take(16).copied().collect();
        let slot = self.construct(global, &arguments)?;
        self.push(slot)
    }

    fn build(&mut self) -> Result<()> {
        let state = self.pop()?;
        let target = self.top()?;
        self.set_state(target, state)
    }

    pub(super) fn bad(&self, expected: &'static str, found: impl Into<String>) -> ReadError {
        ReadError::malformed(self.at, expected, found)
    }
}

/// Text from a file, short enough for a message.
pub(super) fn shown(text: &str) -> String {
    let clean: String = text.chars().take(80).map(|c| if c.is_control() { '?' } else { c }).collect();
    if clean.len() < text.len() { format!("{clean}…") } else { clean }
}
