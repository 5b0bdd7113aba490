//! Elements put in C order and in this machine's byte order.

/// The strides, in elements, of an array whose first axis runs fastest.
pub(crate) fn fortran_strides(shape: &[usize]) -> Vec<usize> {
    let mut stride = 1usize;
    shape
        .iter()
        .map(|side| {
            let this = stride;
            stride = stride.saturating_mul(*side);
            this
        })
        .collect()
}

/// Copies elements of `size` bytes to C order. The caller has checked that all of them lie inside `source`.
pub(crate) fn gather(
    source: &[u8],
    size: usize,
    offset: usize,
    shape: &[usize],
    strides: &[usize],
) -> Vec<u8> {
    let count: usize = if shape.contains(&0) { 0 } else { shape.iter().product() };
    let mut out = Vec::with_capacity(count * size);
    if count == 0 {
        return out;
    }
    let (Some((inner, outer)), Some((inner_stride, outer_strides))) =
        (shape.split_last(), strides.split_last())
    else {
        out.extend_from_slice(&source[offset * size..(offset + 1) * size]);
        return out;
    };
    let mut index = vec![0usize; outer.len()];
    let mut start = offset;
    loop {
        copy_run(source, size, start, *inner, *inner_stride, &mut out);
        // Count up like an odometer, last axis first.
        let mut axis = outer.len();
        loop {
            if axis == 0 {
                return out;
            }
            axis -= 1;
            index[axis] += 1;
            if index[axis] < outer[axis] {
                start += outer_strides[axis];
                break;
            }
            index[axis] = 0;
            start -= outer_strides[axis] * (outer[axis] - 1);
        }
    }
}

fn copy_run(source: &[u8], size: usize, start: usize, len: usize, stride: usize, out: &mut Vec<u8>) {
    if stride == 1 {
        return out.extend_from_slice(&source[start * size..(start + len) * size]);
    }
    match size {
        1 => copy_each::<1>(source, start, len, stride, out),
        2 => copy_each::<2>(source, start, len, stride, out),
        4 => copy_each::<4>(source, start, len, stride, out),
        8 => copy_each::<8>(source, start, len, stride, out),
        _ => (0..len).for_each(|i| {
            let at = (start + i * stride) * size;
            out.extend_from_slice(&source[at..at + size]);
        }),
    }
}

fn copy_each<const SIZE: usize>(source: &[u8], start: usize, len: usize, stride: usize, out: &mut Vec<u8>) {
    out.extend((0..len).flat_map(|i| {
        let at = (start + i * stride) * SIZE;
        let mut element = [0; SIZE];
        element.copy_from_slice(&source[at..at + SIZE]);
        element
    }));
}

/// Turns around the bytes of each number.
pub(crate) fn swap(source: &[u8], size: usize) -> Vec<u8> {
    let mut out = source.to_vec();
    out.chunks_exact_mut(size).for_each(<[u8]>::reverse);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fortran_array_becomes_c() {
        // [[1, 2, 3], [4, 5, 6]] with the first axis fastest
        let source = [1u8, 4, 2, 5, 3, 6];
        assert_eq!(gather(&source, 1, 0, &[2, 3], &fortran_strides(&[2, 3])), [1, 2, 3, 4, 5, 6]);
    }

    #[test]
    fn strides_may_repeat_and_skip() {
        let source: Vec<u8> = (0..12).collect();
        assert_eq!(gather(&source, 2, 1, &[2, 2], &[0, 2]), [2, 3, 6, 7, 2, 3, 6, 7]);
        assert_eq!(gather(&source, 3, 3, &[], &[]), [9, 10, 11]);
        assert!(gather(&source, 3, 3, &[4, 0, 2], &[1, 1, 1]).is_empty());
    }

    #[test]
    fn swapping_turns_numbers_around() {
        assert_eq!(swap(&[1, 2, 3, 4], 2), [2, 1, 4, 3]);
    }
}
