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

  void on_start(const StartEvent& event) override { each(&EventSink::on_start, event); }
  void on_step(const StepEvent& event) override { each(&EventSink::on_step, event); }
  void on_eval(const EvalEvent& event) override { each(&EventSink::on_eval, event); }
  void on_checkpoint(const CheckpointEvent& event) override { each(&EventSink::on_checkpoint, event); }
  void on_out_of_memory(const OutOfMemoryEvent& event) override { each(&EventSink::on_out_of_memory, event); }
  void on_adapt(const AdaptEvent& event) override { each(&EventSink::on_adapt, event); }
  void on_warning(const WarningEvent& event) override { each(&EventSink::on_warning, event); }
  void on_diverged(const DivergedEvent& event) override { each(&EventSink::on_diverged, event); }
  void on_end(const EndEvent& event) override { each(&EventSink::on_end, event); }
  void make_durable() override {
    tell_all([](EventSink& sink) { sink.make_durable(); });
  }

 private:
  template <typename Event>
  void each(void (EventSink::*handler)(const Event&), const Event& event) {
    tell_all([&](EventSink& sink) { (sink.*handler)(event); });
  }

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
