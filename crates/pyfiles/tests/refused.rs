//! Honest files that hold what is not read, and hostile ones: refused at once, by name and place.
#![allow(clippy::unwrap_used, missing_docs)]

mod forge;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use forge::{Member, global, legacy_stream, legacy_with, npy, reduce, text, zip};
use plaudit_pyfiles::{Limits, PyValue, ReadError, Reader, read};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/python")
}

/// Reads hostile bytes: an error with these words in it, soon.
fn refuse(bytes: impl Into<Vec<u8>>, words: &str) -> ReadError {
    let bytes = bytes.into();
    let start = Instant::now();
    let error = Reader::new().read_bytes(bytes).map(|value| value.kind()).unwrap_err();
    // Milliseconds in a release build; tests are built without much care for speed, and machines are busy.
    assert!(start.elapsed() < Duration::from_secs(60), "{error}: took {:?}", start.elapsed());
    assert!(error.to_string().contains(words), "{error}\nwithout: {words}");
    error
}

#[test]
fn honest_files_that_are_not_read_say_why() {
    for (file, words) in [
        ("evil.pkl", "refused `posix.system`"),
        ("structured.pkl", "a structured or void numpy type (`V12`) cannot be read"),
        ("structured.npy", "byte 20: a structured array cannot be read"),
        ("longdouble.pkl", "a long double (`f16`) cannot be read"),
        ("longdouble.npy", "a long double cannot be read"),
        ("void.pkl", "a structured or void numpy type"),
        ("masked.pkl", "refused `numpy.ma.core._mareconstruct`: masked arrays are not read"),
        ("matrix.pkl", "refused `numpy.matrix`: only plain arrays and scalars of numpy are read"),
        ("range.pkl", "refused `builtins.range`"),
        ("path.pkl", "refused `pathlib.PurePosixPath`"),
        ("torch_conjugate.pkl", "a lazily conjugated or negated tensor cannot be read"),
        (
            "sparse.pt",
            "sparse/data.pkl: byte 2: refused `torch._utils._rebuild_sparse_tensor`: sparse tensors",
        ),
        ("quantised.pt", "refused `torch._utils._rebuild_qtensor`: quantised tensors are not read"),
        ("meta.pt", "refused `torch._utils._rebuild_meta_tensor_no_storage`"),
        ("whole_module.pt", "whole torch modules are not read; save `module.state_dict()`"),
        ("out_of_band.pkl", "a buffer that was kept outside the file"),
        ("loop.pkl", "a list contains itself"),
        ("loop_dict.pkl", "a dict contains itself"),
    ] {
        let path = folder().join("refused").join(file);
        let error = read(&path).map(|value| value.kind()).unwrap_err();
        assert!(error.to_string().contains(words), "{error}\nwithout: {words}");
        assert_eq!(error.file(), Some(&*path));
    }
    let missing = read("no/such.pkl").unwrap_err().to_string();
    assert!(missing.starts_with("no/such.pkl: cannot read it: "), "{missing}");
}

#[test]
fn code_is_never_reached() {
    for (module, name) in [
        ("os", "system"),
        ("posix", "system"),
        ("nt", "system"),
        ("subprocess", "Popen"),
        ("builtins", "eval"),
        ("builtins", "exec"),
        ("builtins", "getattr"),
        ("__builtin__", "__import__"),
        ("builtins", "open"),
        ("numpy.core.multiarray", "fromfile"),
        ("numpy", "load"),
        ("numpy.f2py.crackfortran", "getlincoef"),
        ("torch", "load"),
        ("torch.storage", "_load_from_bytes.__globals__"),
        ("torch._utils", "_rebuild_tensor_v2.__globals__"),
        ("torch.jit", "load"),
        ("torch.nn.modules.linear", "Linear"),
        ("copyreg", "_reconstructor"),
        ("collections", "namedtuple"),
        ("functools", "partial"),
        ("operator", "attrgetter"),
        ("pickle", "loads"),
        ("", ""),
    ] {
        let named = format!("refused `{module}.{name}`: ");
        // as a line of text, and from the stack
        assert_eq!(refuse([global(module, name), reduce(b"X\x02\0\0\0id")].concat(), &named).at(), 0);
        let from_stack = [text(module), text(name), b"\x93.".to_vec()].concat();
        refuse([b"\x80\x04".to_vec(), from_stack].concat(), &named);
    }
    // A chain that would fetch eval out of a harmless type.
    let chain = [global("builtins", "dict"), b")R".to_vec(), text("__class__"), b"\x85R.".to_vec()].concat();
    refuse(chain, "expected a known function or class, found a dict");
    refuse([global("builtins", "list"), reduce(b"K\x01")].concat(), "a call of Factory cannot be read");
    // Names with line breaks and control characters do not disturb the message.
    let odd = [text("os\n\u{1b}[31m"), text(&"x".repeat(1000)), b"\x93.".to_vec()].concat();
    assert!(
        !refuse([b"\x80\x04".to_vec(), odd].concat(), "refused `os??[31m.xxx").to_string().contains('\u{1b}')
    );
}

#[test]
fn instances_are_not_made() {
    refuse(b"(ios\nsystem\n.".to_vec(), "an instance of a Python class cannot be read");
    refuse(b"(cbuiltins\ndict\no.".to_vec(), "an instance of a Python class");
    refuse([global("builtins", "dict"), b")}\x92.".to_vec()].concat(), "an instance of a Python class");
    refuse(b"\x82\x01.".to_vec(), "extension registry");
    refuse(b"Pid\n.".to_vec(), "outside the file");
    refuse(b"X\x01\0\0\0aQ.".to_vec(), "expected the name of a torch storage");
    for target in [&b"]"[..], b"}", b")", b"K\x01", b"X\x01\0\0\0a"] {
        let built = [target, b"}X\x0c\0\0\0__setstate__K\x01sb."].concat();
        refuse(built, "expected an array, dtype or OrderedDict that takes state");
    }
    refuse(
        [global("collections", "OrderedDict"), b")R]b.".to_vec()].concat(),
        "expected a dict of attributes",
    );
}

#[test]
fn deep_nesting_stops() {
    const DEEP: usize = 1_000_000;
    let lists = [vec![b']'; DEEP], vec![b'a'; DEEP - 1], b".".to_vec()].concat();
    refuse(lists, "more than 200 levels of containers");
    let tuples = [b")".to_vec(), vec![0x85; DEEP], b".".to_vec()].concat();
    refuse(tuples, "more than 200 levels of containers");
    let dicts = [b"}K\x01".repeat(DEEP / 3), b"N".to_vec(), b"s".repeat(DEEP / 3), b".".to_vec()].concat();
    refuse(dicts, "more than 200 levels of containers");
    let marks = [vec![b'('; DEEP], b".".to_vec()].concat();
    refuse(marks, "expected a value on the stack");
    // Depth counts along every path, also through parts that were shallow when they were first met.
    let mut shared = b"]q\0".to_vec();
    for _ in 0..150 {
        shared.extend(b"]h\0aq\0");
    }
    let tail = [b"(h\0".to_vec(), vec![b']'; 100], b"h\0a".to_vec(), vec![b'a'; 99], b"t.".to_vec()].concat();
    refuse([shared, tail].concat(), "more than 200 levels of containers");
}

#[test]
fn a_hundred_levels_are_fine() {
    let lists = [vec![b']'; 100], vec![b'a'; 99], b".".to_vec()].concat();
    assert!(Reader::new().read_bytes(lists).is_ok());
    let flat = Reader::new().limits(Limits { depth: 5, ..Limits::default() });
    assert!(flat.read_bytes([vec![b']'; 10], vec![b'a'; 9], b".".to_vec()].concat()).is_err());
}

#[test]
fn loops_are_found() {
    refuse(b"]q\0h\0a.".to_vec(), "byte 0: a list contains itself");
    refuse(b"]q\0h\0\x85a.".to_vec(), "a list contains itself");
    refuse(b"}q\0K\x01h\0s.".to_vec(), "a dict contains itself");
    let attributes = [global("collections", "OrderedDict"), b")Rq\0}K\x01h\0sb.".to_vec()].concat();
    refuse(attributes, "a dict contains itself");
    let mut objects = [global("numpy.core.multiarray", "_reconstruct"), global("numpy", "ndarray")].concat();
    objects.extend(b"K\0\x85C\x01b\x87Rq\0(K\x01K\x01\x85");
    objects.extend([global("numpy", "dtype"), text("O8"), b"\x89\x88\x87R\x89]h\0atb.".to_vec()].concat());
    refuse(objects, "a numpy array of objects contains itself");
}

#[test]
fn the_memo_may_lie_but_costs_nothing() {
    refuse(b"h\x05.".to_vec(), "expected an object in the memo, found nothing in place 5");
    refuse(b"j\xff\xff\xff\xff.".to_vec(), "nothing in place 4294967295");
    refuse(b"q\0.".to_vec(), "expected a value on the stack");
    refuse(b"Np99999999999999999999999\n.".to_vec(), "expected a number of the memo");
    refuse(b"Np-1\n.".to_vec(), "expected a number of the memo");
    let far = b"K\x07r\xff\xff\xff\xff0Np18446744073709551615\n0j\xff\xff\xff\xff.";
    assert_eq!(Reader::new().read_bytes(far.to_vec()).unwrap(), PyValue::Int(7));
}

#[test]
fn counts_are_not_believed() {
    for (head, promised) in [
        (&b"\x8b\xff\xff\xff\x7f"[..], "2147483647 bytes are promised here"),
        (b"\x8b\xff\xff\xff\xff", "4294967295 bytes are promised here, but only 1 are left"),
        (b"B\xff\xff\xff\xff", "4294967295 bytes are promised here"),
        (b"T\xff\xff\xff\xff", "4294967295 bytes are promised here"),
        (b"X\xff\xff\xff\xff", "4294967295 bytes are promised here"),
        (b"\x8d\xff\xff\xff\xff\xff\xff\xff\xff", "18446744073709551615 bytes are promised here"),
        (b"\x8e\xff\xff\xff\xff\xff\xff\xff\x7f", "9223372036854775807 bytes are promised here"),
        (b"\x96\0\0\0\0\0\0\0\x80", "9223372036854775808 bytes are promised here"),
        (b"\x95\0\0\0\0\0\x01\0\0", "1099511627776 bytes are promised here"),
        (b"\x8a\xff", "255 bytes are promised here"),
        (b"C\xff", "255 bytes are promised here"),
        (b"\x8c\xff", "255 bytes are promised here"),
    ] {
        let error = refuse([b"\x80\x05]", head, b"."].concat(), promised);
        assert_eq!(error.at(), 3);
    }
    refuse(b"".to_vec(), "byte 0: 1 bytes are promised here, but only 0 are left");
    refuse(format!("L{}L\n.", "9".repeat(100_000)), "expected a whole number");
}

#[test]
fn objects_are_counted() {
    let few = Reader::new().limits(Limits { objects: 1000, ..Limits::default() });
    let many = [b"](".to_vec(), b"N".repeat(2000), b"e.".to_vec()].concat();
    let error = few.read_bytes(many).unwrap_err();
    assert!(error.to_string().contains("more than 1000 objects; save numbers as an array"), "{error}");
    // A short instruction that copies a long list counts for the list.
    let mut copies =
        [b"](".to_vec(), b"N".repeat(100), b"eq\0".to_vec(), global("builtins", "set"), b"q\x01".to_vec()]
            .concat();
    copies.extend(b"h\x01h\0\x85R0".repeat(100));
    copies.extend(b".");
    assert!(few.read_bytes(copies).unwrap_err().to_string().contains("more than 1000 objects"));
}

#[test]
fn repetition_does_not_unfold() {
    // A billion laughs: each list holds the one before ten times.
    let mut laughs = b"]q\0".to_vec();
    for _ in 0..60 {
        laughs.extend(b"](");
        laughs.extend(b"h\0".repeat(10));
        laughs.extend(b"eq\0");
    }
    laughs.push(b'.');
    refuse(laughs, "values in its containers; the file holds the same containers over and over");

    // The same long text made into bytes again and again.
    let mut encodes =
        [global("_codecs", "encode"), b"q\0".to_vec(), text(&"x".repeat(1 << 20)), b"q\x01".to_vec()]
            .concat();
    encodes.extend([text("latin1"), b"q\x02000".to_vec()].concat());
    encodes.extend(b"h\0h\x01h\x02\x86R0".repeat(10_000));
    encodes.push(b'.');
    refuse(encodes, "bytes of text; the same long text is used over and over");

    // The same long text as the key of every entry.
    let mut keys = [text(&"x".repeat(1 << 20)), b"q\x000}(".to_vec()].concat();
    keys.extend(b"h\0N".repeat(10_000));
    keys.extend(b"u.");
    refuse(keys, "bytes of text; the same long text is used over and over");

    // The same torch stream read again and again.
    let junk = [b"]0".repeat(50_000), b"N0".to_vec()].concat();
    let stream = legacy_with(&junk, &[("0", "ByteStorage", 4)], &[(4, b"abcd")]);
    let mut streams = [global("torch.storage", "_load_from_bytes"), b"q\0".to_vec()].concat();
    streams.push(b'B');
    streams.extend((stream.len() as u32).to_le_bytes());
    streams.extend([stream, b"\x85q\x0100".to_vec()].concat());
    streams.extend(b"h\0h\x01R0".repeat(10_000));
    streams.push(b'.');
    refuse(streams, "the same stream is run over and over");

    // One huge number in many places is one number.
    let mut numbers = [b"\x8b\0\0\x10\0".to_vec(), vec![7; 1 << 20], b"q\x000](".to_vec()].concat();
    numbers.extend(b"h\0".repeat(100_000));
    numbers.extend(b"e.");
    assert_eq!(Reader::new().read_bytes(numbers).unwrap().as_items().unwrap().len(), 100_000);
}

#[test]
fn the_stack_is_guarded() {
    for broken in [
        &b"."[..],
        b"0.",
        b"1.",
        b"2.",
        b"a.",
        b"Na.",
        b"e.",
        b"s.",
        b"u.",
        b"t.",
        b"\x85.",
        b"\x87.",
        b"R.",
        b"b.",
        b"Q.",
    ] {
        refuse(broken.to_vec(), "expected ");
    }
    refuse(b"N(\x85.".to_vec(), "expected more values on the stack, found 0");
    refuse(b"}(K\x01u.".to_vec(), "an odd number of values");
    refuse(b"NNa.".to_vec(), "expected a list or set to add to, found None");
    refuse(b"NNNs.".to_vec(), "expected a dict to add to, found None");
    refuse(b"}]Ns.".to_vec(), "expected a key that Python can hash, found list");
    refuse(b"\xff.".to_vec(), "expected a pickle instruction, found byte 0xff");
    refuse(b"\x80\x06N.".to_vec(), "pickle protocol 6 cannot be read");
    refuse(b"X\x02\0\0\0\xff\xfe.".to_vec(), "expected text in UTF-8");
    refuse(b"Fx\n.".to_vec(), "expected a number, found x");
    refuse(b"I1".to_vec(), "expected a line of text");
    refuse(b"\x93.".to_vec(), "expected a value on the stack");
    refuse(b"K\x01K\x02\x93.".to_vec(), "expected two names of a Python object");
}

/// A tensor in a plain pickle, over a storage of sixteen bytes.
fn tensor(offset: &[u8], size: &[u8], stride: &[u8]) -> Vec<u8> {
    let stream = legacy_stream(&[("0", "ByteStorage", 16)], &[(16, &[1; 16])]);
    let mut out = [global("torch._utils", "_rebuild_tensor_v2"), b"(".to_vec()].concat();
    out.extend(global("torch.storage", "_load_from_bytes"));
    out.extend([&b"B"[..], &(stream.len() as u32).to_le_bytes(), &stream, b"\x85R"].concat());
    out.extend([offset, b"(", size, b"t(", stride, b"t\x89}tR."].concat());
    out
}

#[test]
fn tensors_stay_inside_their_storage() {
    let good = Reader::new().read_bytes(tensor(b"K\0", b"K\x04K\x04", b"K\x04K\x01")).unwrap();
    assert_eq!(good.as_array().unwrap().shape(), [4, 4]);
    const HUGE: &[u8] = b"\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f";
    let inside = "expected a tensor that lies inside its storage";
    refuse(tensor(b"K\x01", b"K\x10", b"K\x01"), inside);
    refuse(tensor(b"K\0", b"K\x11", b"K\x01"), inside);
    refuse(tensor(b"K\0", b"K\x02K\x02", b"K\x10K\x01"), inside);
    refuse(tensor(b"K\0", b"K\x02", HUGE), inside);
    refuse(tensor(b"K\0", &[HUGE, HUGE].concat(), b"K\x01K\x01"), inside);
    refuse(tensor(HUGE, b"K\x01", b"K\x01"), inside);
    refuse(tensor(b"K\0", b"K\x02", b"J\xff\xff\xff\xff"), "expected the stride of a tensor, found -1");
    refuse(tensor(b"J\xff\xff\xff\xff", b"K\x02", b"K\x01"), "expected the offset of a tensor, found -1");
    refuse(tensor(b"K\0", b"K\x02K\x02", b"K\x01"), "expected a stride for each axis, found 1 for 2");
    refuse(
        tensor(b"K\0", &b"K\x01".repeat(65), &b"K\x01".repeat(65)),
        "expected the size of a tensor, found 65 axes",
    );
    // One element seen four billion times: fine for torch, too much to unfold.
    refuse(tensor(b"K\0", b"J\0\0\x01\0J\0\0\x01\0", b"K\0K\0"), "bytes unfolded from this file");
}

#[test]
fn old_torch_streams_are_checked() {
    let big = u64::MAX / 2;
    let word = "9223372036854775807 bytes are promised here";
    refuse(legacy_stream(&[("0", "ByteStorage", 4)], &[(big, b"abcd")]), word);
    refuse(legacy_stream(&[("0", "DoubleStorage", 4)], &[(u64::MAX, b"abcd")]), "are promised here");
    refuse(legacy_stream(&[("0", "ByteStorage", 5)], &[(4, b"abcd")]), "4 bytes, too few for 5 elements");
    refuse(legacy_stream(&[("0", "ByteStorage", 4)], &[]), "8 bytes are promised here, but only 0 are left");
    refuse(
        legacy_stream(&[("0", "ByteStorage", 1), ("0", "ByteStorage", 1)], &[(1, b"a"), (1, b"b")]),
        "the same key again",
    );
    refuse(legacy_stream(&[("0", "ByteStorage", 4)], &[(4, b"abcd")]), "a bare torch storage cannot be read");
    refuse(b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19.\x80".to_vec(), "are promised here");

    // A stream in a stream in a pickle.
    let inner = legacy_stream(&[("0", "ByteStorage", 4)], &[(4, b"abcd")]);
    let call = |bytes: &[u8]| {
        let mut call = [global("torch.storage", "_load_from_bytes"), b"B".to_vec()].concat();
        call.extend([&(bytes.len() as u32).to_le_bytes(), bytes, b"\x85R"].concat());
        call
    };
    let middle = legacy_with(&call(&inner), &[("0", "ByteStorage", 4)], &[(4, b"abcd")]);
    let error = refuse(
        [call(&middle), b".".to_vec()].concat(),
        "a torch stream inside a torch stream cannot be read",
    );
    assert!(error.to_string().contains("in the torch storage saved here, byte "), "{error}");
    refuse(
        [call(b"PK\x03\x04"), b".".to_vec()].concat(),
        "expected a stream of torch from before 1.6, found a zip archive",
    );
}

#[test]
fn arrays_take_exactly_their_bytes() {
    let array = |dtype: &str, shape: &[u8], bytes: &[u8]| {
        let mut out = [global("numpy.core.multiarray", "_reconstruct"), global("numpy", "ndarray")].concat();
        out.extend(b"K\0\x85C\x01b\x87R(K\x01(");
        out.extend([shape, b"t"].concat());
        out.extend([global("numpy", "dtype"), text(dtype), b"\x89\x88\x87R\x89".to_vec()].concat());
        out.extend([&b"B"[..], &(bytes.len() as u32).to_le_bytes(), bytes, b"tb."].concat());
        out
    };
    assert!(Reader::new().read_bytes(array("f4", b"K\x02", &[0; 8])).is_ok());
    let words = "expected as many bytes as the shape of an array takes";
    refuse(array("f4", b"K\x02", &[0; 7]), words);
    refuse(array("f4", b"\x8a\x08\0\0\0\0\0\0\0\x40K\x04", &[0; 4]), words);
    refuse(array("S0", b"\x8a\x08\0\0\0\0\0\0\0\x40", &[]), words);
    refuse(array("f4", b"J\xff\xff\xff\xff", &[]), "expected the shape of an array, found -1");
    refuse(array("U268435456", b"K\x01", &[]), "a numpy type that is not known");
    refuse(array("O8", b"K\x01", &[0; 8]), "expected the list of an array of objects");
    let blank = [
        global("numpy.core.multiarray", "_reconstruct"),
        global("numpy", "ndarray"),
        b"K\0\x85C\x01b\x87R.".to_vec(),
    ];
    refuse(blank.concat(), "an array that never got its contents cannot be read");
}

#[test]
fn npy_headers_are_not_evaluated() {
    let with = |shape: &str| format!("{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}");
    refuse(
        npy(&with("(1000000000000,)"), b"abcd"),
        "4000000000000 bytes are promised here, but only 4 are left",
    );
    refuse(npy(&with("(4611686018427387904, 4)"), b"abcd"), "18446744073709551615 bytes are promised here");
    refuse(npy(&with("(__import__('os').system('id'),)"), b""), "expected a length, found ");
    refuse(
        npy("__import__('os').system('id')", b""),
        "expected a dict, found `__import__('os').system('id')`",
    );
    refuse(npy(&with(&"(".repeat(9000)), b""), "expected a length");
    refuse(npy(&" ".repeat(20_000), b""), "expected a header of at most 10000 bytes, found 20000");
    let object = "{'descr': '|O', 'fortran_order': False, 'shape': (), }";
    let error = refuse(npy(object, b"cos\nsystem\n."), "refused `os.system`");
    assert_eq!(error.at(), 10 + object.len() as u64);
    refuse(npy(object, b"N."), "expected the array of objects that the header announces, found a None");
}

#[test]
fn zip_archives_must_be_honest() {
    let good = Member::new("a.npy", &npy("{'descr': '|u1', 'fortran_order': False, 'shape': (2,), }", b"ab"));
    let open = |members: &[Member]| Reader::new().read_bytes(zip(members));
    assert_eq!(
        open(std::slice::from_ref(&good)).unwrap().get("a").unwrap().as_array().unwrap().bytes(),
        b"ab"
    );

    for name in ["../a.npy", "/etc/a.npy", "a/../../b.npy", "c:\\a.npy", "a\\b.npy", "a\0b.npy", ".", ""] {
        refuse(
            zip(&[good.clone().named(name)]),
            "expected a member name that stays inside the archive, found `",
        );
    }
    refuse(zip(&[good.clone(), good.clone()]), "expected one member of each name, found two of `a.npy`");
    refuse(
        zip(&[good.clone().local_name("b.npy")]),
        "a.npy: byte 0: expected the same name as in the directory",
    );
    refuse(zip(&[good.clone().encrypted()]), "an encrypted zip member cannot be read");
    refuse(zip(&[good.clone().method(99)]), "zip compression method 99 cannot be read");
    refuse(zip(&[good.clone().crc(1)]), "expected contents that match their CRC");
    refuse(zip(&[good.clone().packed(1 << 30)]), "expected a member that lies in the archive");
    refuse(zip(&[good.clone().packed(200), good.clone().named("b.npy")]), "200 bytes are promised here");
    refuse(zip(&[good.clone().offset(1 << 30)]), "expected a member that lies in the archive");
    refuse(zip(&[good.clone().offset(3)]), "expected the header of a zip member, found other bytes");

    let whole = zip(std::slice::from_ref(&good));
    for cut in [4, 30, whole.len() - 1, whole.len() - 22, whole.len() - 40] {
        refuse(whole[..cut].to_vec(), "");
    }
    let mut more = whole.clone();
    let count = more.len() - 12;
    more[count..count + 2].copy_from_slice(&500u16.to_le_bytes());
    refuse(more, "expected all members of the zip directory, found 1 of 500");
    let mut wide = whole;
    wide[count..count + 2].copy_from_slice(&[0xff, 0xff]);
    refuse(wide, "expected the record of a large zip archive, found none");
}

#[test]
fn zip_bombs_do_not_go_off() {
    let zeros = miniz_oxide::deflate::compress_to_vec(&vec![0; 64 << 20], 9);
    let bomb = |size: u32| Member::new("a.npy", &zeros).method(8).size(size);
    assert!(zeros.len() < 100_000);
    refuse(zip(&[bomb(1 << 20)]), "expected deflated bytes of the size that the directory says");
    refuse(zip(&[bomb(u32::MAX - 1)]), "expected a size that deflate can reach");
    refuse(zip(&[bomb((64 << 20) + 100)]), "expected as many bytes as the directory says");
    let many: Vec<Member> = (0..10).map(|i| bomb(64 << 20).named(&format!("{i}.npy"))).collect();
    let small = Reader::new().limits(Limits { copy_bytes: 1 << 20, copy_ratio: 32, ..Limits::default() });
    let error = small.read_bytes(zip(&many)).unwrap_err();
    assert!(error.to_string().contains("bytes unfolded from this file"), "{error}");
}

#[test]
fn torch_archives_are_checked() {
    let pickle = |len: &[u8]| {
        let mut out =
            [b"\x80\x02".to_vec(), global("torch._utils", "_rebuild_tensor_v2"), b"((".to_vec()].concat();
        out.extend(
            [text("storage"), global("torch", "FloatStorage"), text("0"), text("cpu"), len.to_vec()].concat(),
        );
        out.extend(b"tQK\0K\x02\x85K\x01\x85\x89}tR.");
        out
    };
    let archive = |len: &[u8], data: Member| zip(&[Member::new("x/data.pkl", &pickle(len)), data]);
    let data = Member::new("x/data/0", &[0; 8]);
    assert!(Reader::new().read_bytes(archive(b"K\x02", data.clone())).is_ok());
    refuse(
        archive(b"K\x03", data.clone()),
        "x/data.pkl: byte 86: expected a storage of the size that the pickle says",
    );
    refuse(
        archive(b"\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f", data.clone()),
        "too few for 9223372036854775807 elements",
    );
    refuse(archive(b"J\xff\xff\xff\xff", data.clone()), "expected the length of a storage, found -1");
    refuse(archive(b"K\x02", data.clone().named("x/data/1")), "no `x/data/0`");
    refuse(archive(b"K\x02", data.clone().method(8)), "a compressed member of a torch file cannot be read");
    refuse(zip(&[Member::new("x/data.pkl", b"cos\nsystem\n.")]), "x/data.pkl: byte 0: refused `os.system`");
    refuse(
        zip(&[Member::new("x/data.pkl", &pickle(b"K\x02")), data, Member::new("x/byteorder", b"middle")]),
        "x/byteorder: byte 0: expected `little` or `big`",
    );
}

/// Runs last in the alphabet of threads or not: whatever ran before it, no bomb has gone off.
#[cfg(target_os = "linux")]
#[test]
fn memory_stays_small() {
    zip_bombs_do_not_go_off();
    repetition_does_not_unfold();
    deep_nesting_stops();
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    let peak: u64 = peak.trim().trim_end_matches(" kB").parse().unwrap();
    assert!(peak < 900_000, "{peak} kB");
}

#[test]
fn ints_of_any_size_are_read_and_nonsense_is_none() {
    let number = |bytes: &[u8]| Reader::new().read_bytes([b"\x80\x02", bytes, b"."].concat());
    for (decimal, bytes) in [
        ("1180591620717411303424", &[0u8, 0, 0, 0, 0, 0, 0, 0, 64][..]),
        ("-1180591620717411303424", &[0, 0, 0, 0, 0, 0, 0, 0, 192]),
        ("18446744073709551615", &[255, 255, 255, 255, 255, 255, 255, 255, 0]),
    ] {
        let binary = number(&[&[0x8a, bytes.len() as u8], bytes].concat()).unwrap();
        assert_eq!(binary, number(format!("L{decimal}L\n").as_bytes()).unwrap());
        assert!(matches!(&binary, PyValue::BigInt(big) if big.to_string() == decimal), "{binary:?}");
        assert_eq!(binary.to_f64(), Some(decimal.parse().unwrap()));
    }
    for (bytes, small) in [(&[][..], 0), (&[255; 10], -1), (&[5, 0, 0, 0, 0, 0, 0, 0, 0, 0], 5)] {
        assert_eq!(number(&[&[0x8a, bytes.len() as u8], bytes].concat()).unwrap(), PyValue::Int(small));
    }
    assert_eq!(number(b"I-9223372036854775808\n").unwrap(), PyValue::Int(i64::MIN));
    for nonsense in ["", "-", "1e5", "0x10", "1_000", "１", "5-5", &"9".repeat(5000)] {
        let error = number(format!("I{nonsense}\n").as_bytes()).unwrap_err().to_string();
        assert!(error.contains("a whole number"), "{nonsense}: {error}");
    }
}
