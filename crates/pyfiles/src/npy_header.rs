//! The header of a `.npy` file: a Python literal, read without Python.

use super::dtype::{BadType, NumpyType};
use super::error::{ReadError, Result};

/// What `np.save` says about an array.
#[derive(Debug, PartialEq)]
pub(crate) struct Header {
    pub(crate) dtype: NumpyType,
    pub(crate) fortran: bool,
    pub(crate) shape: Vec<usize>,
    /// Where the data begin.
    pub(crate) end: usize,
}

pub(crate) const MAGIC: &[u8] = b"\x93NUMPY";
/// numpy's own limit on the length of a header that it will look at.
const MAX_LEN: usize = 10_000;

impl Header {
    pub(crate) fn read(bytes: &[u8]) -> Result<Self> {
        if !bytes.starts_with(MAGIC) {
            return Err(ReadError::malformed(0, "the start of a .npy file", "other bytes"));
        }
        let cut = |wanted| ReadError::ends(6, wanted, bytes.len() - 6);
        let (start, len) = match bytes[6..] {
            [1, _, a, b, ..] => (10, usize::from(u16::from_le_bytes([a, b]))),
            [2 | 3, _, a, b, c, d, ..] => (12, u32::from_le_bytes([a, b, c, d]) as usize),
            [1..=3, ..] | [] => return Err(cut(6)),
            [version, ..] => {
                return Err(ReadError::unsupported(
                    6,
                    format!(".npy version {version}"),
                    "save with a known numpy",
                ));
            }
        };
        if len > MAX_LEN {
            return Err(ReadError::malformed(8, "a header of at most 10000 bytes", format!("{len}")));
        }
        let text = bytes.get(start..start + len).ok_or_else(|| cut((start + len - 6) as u64))?;
        let mut parser = Parser { text, at: 0 };
        parser.header(start).map_err(|error| error.shifted(start))
    }
}

/// Reads `{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }` and nothing more.
struct Parser<'a> {
    text: &'a [u8],
    at: usize,
}

impl<'a> Parser<'a> {
    fn header(&mut self, start: usize) -> Result<Header> {
        let (mut dtype, mut fortran, mut shape) = (None, None, None);
        self.expect(b'{', "a dict")?;
        while !self.accept(b'}') {
            let key = self.string()?;
            self.expect(b':', "a colon")?;
            let again = match key {
                "descr" => dtype.replace(self.dtype()?).is_some(),
                "fortran_order" => fortran.replace(self.boolean()?).is_some(),
                "shape" => shape.replace(self.shape()?).is_some(),
                _ => return Err(self.bad("descr, fortran_order or shape")),
            };
            if again {
                return Err(self.bad("each key once"));
            }
            if !self.accept(b',') && self.peek() != Some(b'}') {
                return Err(self.bad("a comma or the end of the dict"));
            }
        }
        if self.peek().is_some() {
            return Err(self.bad("nothing after the dict"));
        }
        match (dtype, fortran, shape) {
            (Some(dtype), Some(fortran), Some(shape)) => {
                Ok(Header { dtype, fortran, shape, end: start + self.text.len() })
            }
            _ => Err(self.bad("all of descr, fortran_order and shape")),
        }
    }

    fn peek(&mut self) -> Option<u8> {
        while self.text.get(self.at).is_some_and(u8::is_ascii_whitespace) {
            self.at += 1;
        }
        self.text.get(self.at).copied()
    }

    fn accept(&mut self, wanted: u8) -> bool {
        let found = self.peek() == Some(wanted);
        self.at += usize::from(found);
        found
    }

    fn expect(&mut self, wanted: u8, what: &'static str) -> Result<()> {
        if self.accept(wanted) { Ok(()) } else { Err(self.bad(what)) }
    }

    /// A quoted string without escapes.
    fn string(&mut self) -> Result<&'a str> {
        let Some(quote @ (b'\'' | b'"')) = self.peek() else { return Err(self.bad("a quoted string")) };
        let start = self.at + 1;
        let len = self.text[start..].iter().position(|byte| *byte == quote);
        let inside = len.map(|len| &self.text[start..start + len]).filter(|inside| !inside.contains(&b'\\'));
        match inside.map(std::str::from_utf8) {
            Some(Ok(text)) => {
                self.at = start + text.len() + 1;
                Ok(text)
            }
            _ => Err(self.bad("a quoted string")),
        }
    }

    fn word(&mut self) -> &'a [u8] {
        self.peek();
        let len = self.text[self.at..].iter().take_while(|byte| byte.is_ascii_alphanumeric()).count();
        self.at += len;
        &self.text[self.at - len..self.at]
    }

    fn boolean(&mut self) -> Result<bool> {
        match self.word() {
            b"True" => Ok(true),
            b"False" => Ok(false),
            _ => Err(self.bad("True or False")),
        }
    }

    fn dtype(&mut self) -> Result<NumpyType> {
        let hint = "save plain numbers, booleans, dates or text; structured arrays field by field";
        if self.peek() == Some(b'[') {
            return Err(ReadError::unsupported(self.at, "a structured array", hint));
        }
        let at = self.at;
        let name = self.string()?;
        NumpyType::parse(name).map_err(|BadType(what)| ReadError::unsupported(at, what, hint))
    }

    fn shape(&mut self) -> Result<Vec<usize>> {
        self.expect(b'(', "a tuple")?;
        let mut shape = Vec::new();
        while !self.accept(b')') {
            shape.push(self.side()?);
            if shape.len() > 64 {
                return Err(self.bad("at most 64 axes"));
            }
            if !self.accept(b',') && (shape.len() == 1 || self.peek() != Some(b')')) {
                return Err(self.bad("a comma or the end of the tuple"));
            }
        }
        Ok(shape)
    }

    /// A number; Python 2 put an `L` behind large ones.
    fn side(&mut self) -> Result<usize> {
        let word = self.word();
        let digits = word.strip_suffix(b"L").unwrap_or(word);
        std::str::from_utf8(digits)
            .ok()
            .and_then(|digits| digits.parse().ok())
            .ok_or_else(|| self.bad("a length"))
    }

    fn bad(&self, expected: &'static str) -> ReadError {
        let rest: String =
            String::from_utf8_lossy(&self.text[self.at.min(self.text.len())..]).chars().take(40).collect();
        let rest = rest.trim_end();
        let found = if rest.is_empty() { "the end of the header".to_owned() } else { format!("`{rest}`") };
        ReadError::malformed(self.at, expected, found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Header> {
        let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
        bytes.extend((text.len() as u16).to_le_bytes());
        bytes.extend(text.as_bytes());
        Header::read(&bytes)
    }

    #[test]
    fn what_numpy_writes_is_read() {
        let header = read("{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }      \n").unwrap();
        assert_eq!((header.shape, header.fortran), (vec![3, 4], false));
        assert_eq!(read("{'descr':'|u1','shape':(5,),'fortran_order':True}").unwrap().shape, [5]);
        assert_eq!(read("{'descr': '|O', 'fortran_order': False, 'shape': ()}").unwrap().shape, [0usize; 0]);
        assert_eq!(
            read("{'descr': '<f4', 'fortran_order': False, 'shape': (3L, 4L)}").unwrap().shape,
            [3, 4]
        );
    }

    #[test]
    fn anything_else_is_refused() {
        for text in [
            "",
            "{}",
            "{'descr': '<f4', 'fortran_order': False}",
            "{'descr': '<f4', 'fortran_order': False, 'shape': 3}",
            "{'descr': '<f4', 'fortran_order': False, 'shape': (3)}",
            "{'descr': '<f4', 'fortran_order': False, 'shape': (-3,)}",
            "{'descr': '<f4', 'fortran_order': 0, 'shape': (3,)}",
            "{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (3,)}",
            "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (3,)}",
            "{'descr': '<f4', 'fortran_order': False, 'shape': (__import__('os').system('id'),)}",
            "{'descr': '<f4', 'fortran_order': False, 'shape': (3,)} + x",
            "{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999999,)}",
        ] {
            assert!(read(text).is_err(), "{text}");
        }
        for bytes in
            [&b""[..], b"\x93NUMPY", b"\x93NUMPY\x01", b"\x93NUMPY\x01\x00\xff", b"\x93NUMPY\x09\x00\x00\x00"]
        {
            assert!(Header::read(bytes).is_err());
        }
    }
}
