#pragma once

#include <exception>
#include <vector>

#include "engine/train/events.h"

namespace trainer {

/// Passes every event on to several sinks, in the order they were added. They must outlive it. Where one throws, the
/// others are told before that is thrown on.
class EventFanout final : public EventSink {
 public:
  void add(EventSink& sink) { sinks_.push_back(&sink); }

  void take(const Event& event) override {
    tell_all([&](EventSink& sink) { sink.take(event); });
  }
  void make_durable() override {
    tell_all([](EventSink& sink) { sink.make_durable(); });
  }

 private:
  template <typename Function>
  void tell_all(Function tell) {
    std::exception_ptr first;
    for (EventSink* sink : sinks_) {
      try {
        tell(*sink);
      } catch (const std::exception&) {
        if (!first) first = std::current_exception();
      }
    }
    if (first) std::rethrow_exception(first);
  }

  std::vector<EventSink*> sinks_;
};

}  // namespace trainer
