#pragma once

#include <string>

namespace trainer {

/// "6,194", "12.5": so many in a second; "-" where no time has passed.
std::string format_rate(double count, double seconds);

/// Four decimals, as losses are compared, but never wider than a column of ten: "0.0319", "1.234e+07", "nan".
std::string format_loss(double loss);

/// The same, with the digits of small ones: "4.996e-06".
std::string format_any_loss(double loss);

/// "0:42", "1:02:03", "12 d 3 h".
std::string format_clock(double seconds);

}  // namespace trainer
