//! A list that nearly always has one number, which then costs nothing beside itself.

#[derive(Debug)]
pub(crate) enum Few {
    One(u32),
    Many(Vec<u32>),
}

impl Default for Few {
    fn default() -> Self {
        Self::Many(Vec::new())
    }
}

impl Few {
    pub(crate) fn as_slice(&self) -> &[u32] {
        match self {
            Self::One(number) => std::slice::from_ref(number),
            Self::Many(numbers) => numbers,
        }
    }

    pub(crate) fn push(&mut self, number: u32) {
        match self {
            Self::Many(numbers) if numbers.is_empty() => *self = Self::One(number),
            Self::Many(numbers) => numbers.push(number),
            Self::One(first) => *self = Self::Many(vec![*first, number]),
        }
    }

    /// Takes a number out; is nothing left?
    pub(crate) fn remove(&mut self, number: u32) -> bool {
        match self {
            Self::One(one) if *one == number => *self = Self::default(),
            Self::One(_) => {}
            Self::Many(numbers) => numbers.retain(|other| *other != number),
        }
        self.as_slice().is_empty()
    }
}
