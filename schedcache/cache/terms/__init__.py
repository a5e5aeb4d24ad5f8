"""Counts of placed pods that match a term, by node: kept up to date as pods come and go, for spreading and affinity."""

from schedcache.cache.terms.index import TermIndex
from schedcache.cache.terms.row_counts import Counts
from schedcache.cache.terms.term import Owned, OwnedTerm, Ownership, PodTerm, owned_terms, term_namespaces

__all__ = ["Counts", "Owned", "OwnedTerm", "Ownership", "PodTerm", "TermIndex", "owned_terms", "term_namespaces"]
