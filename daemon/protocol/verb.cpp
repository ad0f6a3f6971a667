#include "kvstrata/protocol.h"

namespace kvstrata::protocol {

std::string_view to_string(Verb verb) {
  switch (verb) {
    case Verb::hello: return "HELLO";
    case Verb::register_model: return "REGISTER";
    case Verb::lookup: return "LOOKUP";
    case Verb::group_lookup: return "GROUP_LOOKUP";
    case Verb::exists: return "EXISTS";
    case Verb::load: return "LOAD";
    case Verb::renew: return "RENEW";
    case Verb::lease_attach: return "LEASE_ATTACH";
    case Verb::release: return "RELEASE";
    case Verb::cancel: return "CANCEL";
    case Verb::reserve: return "RESERVE";
    case Verb::commit: return "COMMIT";
    case Verb::abort: return "ABORT";
    case Verb::flush: return "FLUSH";
    case Verb::get: return "GET";
    case Verb::put: return "PUT";
    case Verb::pin: return "PIN";
    case Verb::ttl: return "TTL";
    case Verb::remove: return "DELETE";
    case Verb::clear: return "CLEAR";
    case Verb::epoch_bump: return "EPOCH_BUMP";
    case Verb::stats: return "STATS";
    case Verb::explain: return "EXPLAIN";
    case Verb::watch: return "WATCH";
    case Verb::list: return "LIST";
    case Verb::inspect: return "INSPECT";
    case Verb::evict: return "EVICT";
    case Verb::verify: return "VERIFY";
    case Verb::chunk_unmapped: return "CHUNK_UNMAPPED";
    case Verb::event: return "event";
  }
  return "unknown verb";
}

}  // namespace kvstrata::protocol
