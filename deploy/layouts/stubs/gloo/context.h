// Declares of Gloo, whose headers no wheel brings, what ProcessGroupGloo.hpp names. It holds them by pointers alone.
#pragma once
#include <chrono>
namespace gloo {
class Context {
 public:
  void setTimeout(std::chrono::milliseconds);
};
}  // namespace gloo
