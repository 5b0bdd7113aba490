//! Zip archives, as far as Python's files need them: `.pt` and `.npz`.

mod read;
mod write;

pub use read::Archive;
pub(crate) use write::ZipWriter;

const LOCAL: u32 = 0x0403_4b50;
const CENTRAL: u32 = 0x0201_4b50;
const END: u32 = 0x0605_4b50;
const END64: u32 = 0x0606_4b50;
const END64_LOCATOR: u32 = 0x0706_4b50;
const LOCAL_LEN: usize = 30;
const CENTRAL_LEN: usize = 46;
const END_LEN: usize = 22;
const END64_LEN: usize = 56;
const END64_LOCATOR_LEN: usize = 20;
const STORED: u16 = 0;
const DEFLATED: u16 = 8;
/// The extra field that holds sizes beyond 32 bits.
const EXTRA_ZIP64: u16 = 1;
/// Python's `zipfile` writes `0x0800` where a name is in UTF-8; bit 0 says that a member is encrypted.
const FLAG_ENCRYPTED: u16 = 1;
const FLAG_UTF8: u16 = 0x0800;
