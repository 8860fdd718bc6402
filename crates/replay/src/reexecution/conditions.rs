//! Conditions of jumps, moves and byte settings.

use iced_x86::ConditionCode;

use super::flags::Flags;
use super::Stop;

impl Flags {
    /// Whether a condition holds.
    pub(super) fn holds(&self, condition: ConditionCode) -> Result<bool, Stop> {
        use ConditionCode as C;
        let known = |flag: Option<bool>| flag.ok_or(Stop::UnknownValue);
        let carry = || known(self.carry);
        let zero = || known(self.zero);
        let less = || Ok::<bool, Stop>(known(self.sign)? != known(self.overflow)?);
        Ok(match condition {
            C::o => known(self.overflow)?,
            C::no => !known(self.overflow)?,
            C::b => carry()?,
            C::ae => !carry()?,
            C::e => zero()?,
            C::ne => !zero()?,
            C::be => carry()? || zero()?,
            C::a => !(carry()? || zero()?),
            C::s => known(self.sign)?,
            C::ns => !known(self.sign)?,
            C::p => known(self.parity)?,
            C::np => !known(self.parity)?,
            C::l => less()?,
            C::ge => !less()?,
            C::le => zero()? || less()?,
            C::g => !(zero()? || less()?),
            C::None => return Err(Stop::Unsupported),
        })
    }
}
