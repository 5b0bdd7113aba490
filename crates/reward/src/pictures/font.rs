//! Letters of three by five dots.

/// Columns from one letter to the next.
pub(super) const ADVANCE: usize = 4;
/// Rows of a letter.
pub(super) const HEIGHT: usize = 5;

/// The dots of a letter, row by row: one octal digit each, its highest bit on the left.
pub(super) fn glyph(letter: char) -> u16 {
    match letter.to_ascii_uppercase() {
        ' ' => 0o00000,
        '0' => 0o75557,
        '1' => 0o26227,
        '2' => 0o71747,
        '3' => 0o71717,
        '4' => 0o55711,
        '5' => 0o74717,
        '6' => 0o74757,
        '7' => 0o71122,
        '8' => 0o75757,
        '9' => 0o75717,
        'A' => 0o25755,
        'B' => 0o65656,
        'C' => 0o34443,
        'D' => 0o65556,
        'E' => 0o74747,
        'F' => 0o74744,
        'G' => 0o34553,
        'H' => 0o55755,
        'I' => 0o72227,
        'J' => 0o11152,
        'K' => 0o55655,
        'L' => 0o44447,
        'M' => 0o57755,
        'N' => 0o65555,
        'O' => 0o25552,
        'P' => 0o65644,
        'Q' => 0o25563,
        'R' => 0o65655,
        'S' => 0o34216,
        'T' => 0o72222,
        'U' => 0o55557,
        'V' => 0o55552,
        'W' => 0o55775,
        'X' => 0o55255,
        'Y' => 0o55222,
        'Z' => 0o71247,
        '.' => 0o00002,
        ',' => 0o00024,
        ':' => 0o02020,
        '-' => 0o00700,
        '+' => 0o02720,
        '_' => 0o00007,
        '/' => 0o11244,
        '%' => 0o51245,
        '=' => 0o07070,
        '<' => 0o12421,
        '>' => 0o42124,
        '(' => 0o12221,
        ')' => 0o42224,
        '#' => 0o57575,
        '@' => 0o25743,
        _ => 0o71202,
    }
}

/// Whether a dot of a letter is set.
pub(super) fn dot(glyph: u16, row: usize, column: usize) -> bool {
    glyph >> (3 * (HEIGHT - 1 - row) + (2 - column)) & 1 == 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seven_looks_like_one() {
        let rows: Vec<String> = (0..HEIGHT)
            .map(|row| (0..3).map(|column| if dot(glyph('7'), row, column) { '#' } else { '.' }).collect())
            .collect();
        assert_eq!(rows, ["###", "..#", "..#", ".#.", ".#."]);
    }
}
