//! Which part of an image changed.

use std::ops::Range;

use plaudit_draw::Canvas;

/// A rectangle of pixels.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Area {
    pub(super) x: Range<usize>,
    pub(super) y: Range<usize>,
}

impl Area {
    /// All of an image.
    pub(super) fn whole(image: &Canvas) -> Self {
        Self { x: 0..image.width(), y: 0..image.height() }
    }

    /// The smallest rectangle that holds all changes, or one pixel when there are none.
    pub(super) fn changed(old: &Canvas, new: &Canvas) -> Self {
        let mut area = Self { x: new.width()..0, y: new.height()..0 };
        for y in 0..new.height() {
            let (old, new) = (old.row(y), new.row(y));
            if old == new {
                continue;
            }
            area.y = area.y.start.min(y)..y + 1;
            let differs = |(old, new): (&u8, &u8)| old != new;
            let first = old.iter().zip(new).position(differs).unwrap_or(0) / 3;
            let last = old.iter().zip(new).rposition(differs).unwrap_or(0) / 3;
            area.x = area.x.start.min(first)..area.x.end.max(last + 1);
        }
        if area.y.is_empty() { Self { x: 0..1, y: 0..1 } } else { area }
    }

    pub(super) fn width(&self) -> usize {
        self.x.len()
    }

    pub(super) fn height(&self) -> usize {
        self.y.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rectangle_holds_every_change_and_no_more() {
        let old = Canvas::filled(7, 5, [1; 3]);
        assert_eq!(Area::changed(&old, &old), Area { x: 0..1, y: 0..1 });
        let mut new = old.clone();
        new.fill((5, 1), (1, 1), [1, 1, 2]);
        new.fill((2, 3), (1, 1), [0, 1, 1]);
        assert_eq!(Area::changed(&old, &new), Area { x: 2..6, y: 1..4 });
    }
}
