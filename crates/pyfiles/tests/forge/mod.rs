//! Pieces of Python files, put together by hand so that they can lie.

/// `module.name`, as a line of text.
pub(crate) fn global(module: &str, name: &str) -> Vec<u8> {
    format!("c{module}\n{name}\n").into_bytes()
}

/// A call of what is on the stack with one argument, and the end.
pub(crate) fn reduce(argument: &[u8]) -> Vec<u8> {
    [argument, b"\x85R."].concat()
}

/// A text.
pub(crate) fn text(text: &str) -> Vec<u8> {
    [&b"X"[..], &(text.len() as u32).to_le_bytes(), text.as_bytes()].concat()
}

/// A `.npy` file.
pub(crate) fn npy(header: &str, data: &[u8]) -> Vec<u8> {
    [b"\x93NUMPY\x01\x00", &(header.len() as u16).to_le_bytes()[..], header.as_bytes(), data].concat()
}

/// A stream of old torch whose object is its first storage. Storages have key, class and length; blocks a count and
/// bytes.
pub(crate) fn legacy_stream(storages: &[(&str, &str, u8)], blocks: &[(u64, &[u8])]) -> Vec<u8> {
    legacy_with(b"", storages, blocks)
}

/// The same with instructions ahead of the object.
pub(crate) fn legacy_with(ahead: &[u8], storages: &[(&str, &str, u8)], blocks: &[(u64, &[u8])]) -> Vec<u8> {
    let mut out = b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19.\x80\x02M\xe9\x03.\x80\x02}".to_vec();
    out.extend([text("little_endian"), b"\x88s.\x80\x02".to_vec(), ahead.to_vec()].concat());
    let (key, class, len) = storages[0];
    out.extend([b"(".to_vec(), text("storage"), global("torch", class), text(key), text("cpu")].concat());
    out.extend([b'K', len]);
    out.extend(b"NtQ.\x80\x02](");
    storages.iter().for_each(|(key, ..)| out.extend(text(key)));
    out.extend(b"e.");
    for (count, bytes) in blocks {
        out.extend([&count.to_le_bytes()[..], bytes].concat());
    }
    out
}

/// A member of a zip archive, with whatever its headers claim.
#[derive(Clone)]
pub(crate) struct Member {
    name: String,
    local_name: Option<String>,
    data: Vec<u8>,
    method: u16,
    flags: u16,
    crc: u32,
    packed: u32,
    size: u32,
    offset: Option<u32>,
}

impl Member {
    pub(crate) fn new(name: &str, data: &[u8]) -> Self {
        let len = data.len() as u32;
        Self {
            name: name.into(),
            local_name: None,
            data: data.into(),
            method: 0,
            flags: 0,
            crc: crc32fast::hash(data),
            packed: len,
            size: len,
            offset: None,
        }
    }

    pub(crate) fn named(mut self, name: &str) -> Self {
        self.name = name.into();
        self
    }

    pub(crate) fn local_name(mut self, name: &str) -> Self {
        self.local_name = Some(name.into());
        self
    }

    pub(crate) fn encrypted(mut self) -> Self {
        self.flags = 1;
        self
    }

    pub(crate) fn method(mut self, method: u16) -> Self {
        self.method = method;
        self
    }

    pub(crate) fn crc(mut self, crc: u32) -> Self {
        self.crc = crc;
        self
    }

    pub(crate) fn packed(mut self, packed: u32) -> Self {
        self.packed = packed;
        self
    }

    pub(crate) fn size(mut self, size: u32) -> Self {
        self.size = size;
        self
    }

    pub(crate) fn offset(mut self, offset: u32) -> Self {
        self.offset = Some(offset);
        self
    }

    fn common(&self, name: &str) -> Vec<u8> {
        let numbers = [20, self.flags, self.method, 0, 0x21];
        let sizes = [self.crc, self.packed, self.size];
        let mut out: Vec<u8> = numbers.iter().flat_map(|number: &u16| number.to_le_bytes()).collect();
        out.extend(sizes.iter().flat_map(|number| number.to_le_bytes()));
        out.extend((name.len() as u16).to_le_bytes());
        out.extend([0, 0]);
        out
    }
}

/// An archive of these members.
pub(crate) fn zip(members: &[Member]) -> Vec<u8> {
    let (mut out, mut directory) = (Vec::new(), Vec::new());
    for member in members {
        let offset = member.offset.unwrap_or(out.len() as u32);
        let local = member.local_name.as_deref().unwrap_or(&member.name);
        out.extend([b"PK\x03\x04", &member.common(local)[..], local.as_bytes(), &member.data].concat());
        directory.extend([b"PK\x01\x02\x14\0", &member.common(&member.name)[..], &[0; 10]].concat());
        directory.extend([&offset.to_le_bytes()[..], member.name.as_bytes()].concat());
    }
    let count = (members.len() as u16).to_le_bytes();
    let numbers = [directory.len() as u32, out.len() as u32].map(u32::to_le_bytes);
    out.extend(&directory);
    out.extend([b"PK\x05\x06\0\0\0\0", &count[..], &count, &numbers[0], &numbers[1], &[0, 0]].concat());
    out
}
