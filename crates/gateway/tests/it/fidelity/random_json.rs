//! Random JSON texts with unusual spelling: escapes, numbers, white space and order of members. A seed determines all texts.

/// Pseudo-random generator of JSON texts.
pub struct RandomJson(u64);

impl RandomJson {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub fn next(&mut self) -> u64 {
        // SplitMix64.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    pub fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    pub fn pick<'c>(&mut self, from: &[&'c str]) -> &'c str {
        from[self.below(from.len())]
    }

    /// Returns white space, mostly empty. Texts of events must not have line breaks, which would end the `data` line.
    pub fn white_space(&mut self, line_breaks: bool) -> &'static str {
        match self.below(if line_breaks { 10 } else { 8 }) {
            6 => " ",
            7 => " \t ",
            8 => "\n",
            9 => " \r\n\t",
            _ => "",
        }
    }

    /// Returns a number that changes when it is parsed as float or integer and written again.
    pub fn number(&mut self) -> String {
        let unusual = [
            "0",
            "-0",
            "1.10",
            "1e2",
            "1E+2",
            "1.0",
            "-1.50e-7",
            "9007199254740993",
            "18446744073709551616",
            "0.1",
            "123456789012345678901234567890",
            "-98765432109876543210.0123456789012345678900",
        ];
        if self.one_in(2) { self.pick(&unusual).to_owned() } else { (self.next() as i64).to_string() }
    }

    /// Returns a string with escapes that have other spellings.
    pub fn string(&mut self) -> String {
        let parts = [
            "",
            "a",
            "Zeta",
            "é",
            "e\\u0301",
            "\\u0041",
            "\\/",
            "\\\\",
            "\\\"",
            "\\n",
            "\\u0000",
            "\\ud83d\\ude00",
            "😀",
            "\\u2028",
            "\u{feff}",
            "  ",
            "null",
            "${X}",
            "00-1",
            "data: x",
            "{}",
            "]",
            "<b>",
        ];
        let count = self.below(5);
        let text: String = (0..count).map(|_| self.pick(&parts)).collect();
        format!("\"{text}\"")
    }

    pub fn value(&mut self, depth: usize, line_breaks: bool) -> String {
        match self.below(if depth == 0 { 4 } else { 6 }) {
            0 => self.pick(&["null", "true", "false"]).to_owned(),
            1 => self.number(),
            2 | 3 => self.string(),
            4 => {
                let entries: Vec<String> = (0..self.below(4)).map(|_| self.spaced(depth - 1, line_breaks)).collect();
                format!("[{}]", entries.join(","))
            }
            _ => self.object(depth - 1, line_breaks, &[]),
        }
    }

    fn spaced(&mut self, depth: usize, line_breaks: bool) -> String {
        let (before, value, after) =
            (self.white_space(line_breaks), self.value(depth, line_breaks), self.white_space(line_breaks));
        format!("{before}{value}{after}")
    }

    /// Returns an object with `members`, whose values are copied verbatim, and unknown members, in random order.
    pub fn object(&mut self, depth: usize, line_breaks: bool, members: &[(&str, String)]) -> String {
        let mut all: Vec<String> = members
            .iter()
            .map(|(name, value)| (format!("\"{name}\""), value))
            .map(|(name, value)| {
                let (before, after) = (self.white_space(line_breaks), self.white_space(line_breaks));
                format!("{before}{name}{after}:{value}{}", self.white_space(line_breaks))
            })
            .collect();
        for nth in 0..self.below(4) {
            // The number makes the names unique, however they are spelled; no name of the protocol ends in a digit.
            let name =
                self.pick(&["x-vendor ", "io.example/key", "ünknown", "\\u0061", "$ref", "__proto__", "\\/", "KEY"]);
            let (before, value) = (self.white_space(line_breaks), self.spaced(depth, line_breaks));
            all.push(format!("{before}\"{name}{nth}\":{value}"));
        }
        for at in (1..all.len()).rev() {
            all.swap(at, self.below(at + 1));
        }
        format!("{{{}}}", all.join(","))
    }
}
