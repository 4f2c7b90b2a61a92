/* The part of OpenSSL that links call, in our own words: it is bound by name at run time, for no headers of it are needed
 * to build, and one that Python has loaded is used in place of a second one. All of it is public in OpenSSL 3.
 */
#ifndef RTMW_LINK_OPENSSL_H
#define RTMW_LINK_OPENSSL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct ssl_method SSL_METHOD;
typedef struct ssl_ctx SSL_CTX;
typedef struct ssl SSL;
typedef struct bio BIO;
typedef struct bio_method BIO_METHOD;
typedef struct x509 X509;
typedef struct evp_pkey EVP_PKEY;
typedef struct x509_store X509_STORE;
typedef struct x509_verify_param X509_VERIFY_PARAM;
typedef struct ssl_cipher SSL_CIPHER;
typedef struct evp_cipher EVP_CIPHER;
typedef struct evp_cipher_ctx EVP_CIPHER_CTX;
typedef struct evp_md EVP_MD;
typedef int (*password_callback)(char *, int, int, void *);
typedef void (*keylog_callback)(const SSL *, const char *line);

enum {
    SSL_ERROR_SSL = 1,
    SSL_ERROR_WANT_READ = 2,
    SSL_ERROR_WANT_WRITE = 3,
    SSL_ERROR_SYSCALL = 5,
    SSL_ERROR_ZERO_RETURN = 6,
    SSL_VERIFY_PEER = 1,
    SSL_VERIFY_FAIL_IF_NO_PEER_CERT = 2,
    SSL_CTRL_SET_SESS_CACHE_MODE = 44,
    SSL_CTRL_SET_MIN_PROTO_VERSION = 123,
    SSL_CTRL_SET_MAX_PROTO_VERSION = 124,
    TLS1_3_VERSION = 0x0304,
    X509_V_FLAG_X509_STRICT = 0x20,
    EVP_CTRL_AEAD_GET_TAG = 16,
    EVP_CTRL_AEAD_SET_TAG = 17,
    ERR_LIB_SSL = 20,
    ERR_LIB_SHIFT = 23,
    SSL_AD_REASON_OFFSET = 1000, /* to which an alert is added */
};
#define SSL_OP_ENABLE_KTLS      (UINT64_C(1) << 3)
#define SSL_OP_NO_TICKET        (UINT64_C(1) << 14)
#define SSL_OP_NO_COMPRESSION   (UINT64_C(1) << 17)
#define SSL_OP_NO_RENEGOTIATION (UINT64_C(1) << 30)

/* Name, result, arguments. */
#define OPENSSL_FUNCTIONS(f)                                                                                          \
    f(TLS_server_method, const SSL_METHOD *, (void));                                                                 \
    f(TLS_client_method, const SSL_METHOD *, (void));                                                                 \
    f(SSL_CTX_new, SSL_CTX *, (const SSL_METHOD *));                                                                  \
    f(SSL_CTX_free, void, (SSL_CTX *));                                                                               \
    f(SSL_CTX_ctrl, long, (SSL_CTX *, int, long, void *));                                                            \
    f(SSL_CTX_set_options, uint64_t, (SSL_CTX *, uint64_t));                                                          \
    f(SSL_CTX_clear_options, uint64_t, (SSL_CTX *, uint64_t));                                                        \
    f(SSL_CTX_set_ciphersuites, int, (SSL_CTX *, const char *));                                                      \
    f(SSL_CTX_set_num_tickets, int, (SSL_CTX *, size_t));                                                             \
    f(SSL_CTX_set_verify, void, (SSL_CTX *, int, void *));                                                            \
    f(SSL_CTX_get_cert_store, X509_STORE *, (const SSL_CTX *));                                                       \
    f(SSL_CTX_get0_param, X509_VERIFY_PARAM *, (SSL_CTX *));                                                          \
    f(SSL_CTX_use_certificate, int, (SSL_CTX *, X509 *));                                                             \
    f(SSL_CTX_use_PrivateKey, int, (SSL_CTX *, EVP_PKEY *));                                                          \
    f(SSL_CTX_check_private_key, int, (const SSL_CTX *));                                                             \
    f(SSL_CTX_add_client_CA, int, (SSL_CTX *, X509 *));                                                               \
    f(SSL_CTX_set_keylog_callback, void, (SSL_CTX *, keylog_callback));                                               \
    f(SSL_new, SSL *, (SSL_CTX *));                                                                                   \
    f(SSL_free, void, (SSL *));                                                                                       \
    f(SSL_set_fd, int, (SSL *, int));                                                                                 \
    f(SSL_set_accept_state, void, (SSL *));                                                                           \
    f(SSL_set_connect_state, void, (SSL *));                                                                          \
    f(SSL_do_handshake, int, (SSL *));                                                                                \
    f(SSL_has_pending, int, (const SSL *));                                                                           \
    f(SSL_get_error, int, (const SSL *, int));                                                                        \
    f(SSL_get_verify_result, long, (const SSL *));                                                                    \
    f(SSL_get1_peer_certificate, X509 *, (const SSL *));                                                              \
    f(SSL_get_current_cipher, const SSL_CIPHER *, (const SSL *));                                                     \
    f(SSL_CIPHER_get_name, const char *, (const SSL_CIPHER *));                                                       \
    f(SSL_CIPHER_get_protocol_id, uint16_t, (const SSL_CIPHER *));                                                    \
    f(X509_VERIFY_PARAM_set_flags, int, (X509_VERIFY_PARAM *, unsigned long));                                        \
    f(X509_STORE_add_cert, int, (X509_STORE *, X509 *));                                                              \
    f(X509_verify_cert_error_string, const char *, (long));                                                           \
    f(X509_free, void, (X509 *));                                                                                     \
    f(d2i_X509, X509 *, (X509 **, const uint8_t **, long));                                                           \
    f(i2d_X509, int, (const X509 *, uint8_t **));                                                                     \
    f(PEM_read_bio_X509, X509 *, (BIO *, X509 **, password_callback, void *));                                        \
    f(PEM_read_bio_PrivateKey, EVP_PKEY *, (BIO *, EVP_PKEY **, password_callback, void *));                          \
    f(EVP_PKEY_free, void, (EVP_PKEY *));                                                                             \
    f(EVP_aes_128_gcm, const EVP_CIPHER *, (void));                                                                   \
    f(EVP_aes_256_gcm, const EVP_CIPHER *, (void));                                                                   \
    f(EVP_chacha20_poly1305, const EVP_CIPHER *, (void));                                                             \
    f(EVP_sha256, const EVP_MD *, (void));                                                                            \
    f(EVP_sha384, const EVP_MD *, (void));                                                                            \
    f(EVP_CIPHER_CTX_new, EVP_CIPHER_CTX *, (void));                                                                  \
    f(EVP_CIPHER_CTX_free, void, (EVP_CIPHER_CTX *));                                                                 \
    f(EVP_CIPHER_CTX_ctrl, int, (EVP_CIPHER_CTX *, int, int, void *));                                                \
    f(EVP_CipherInit_ex, int, (EVP_CIPHER_CTX *, const EVP_CIPHER *, void *, const uint8_t *, const uint8_t *, int)); \
    f(EVP_CipherUpdate, int, (EVP_CIPHER_CTX *, uint8_t *, int *, const uint8_t *, int));                             \
    f(EVP_CipherFinal_ex, int, (EVP_CIPHER_CTX *, uint8_t *, int *));                                                 \
    f(HMAC, uint8_t *, (const EVP_MD *, const void *, int, const uint8_t *, size_t, uint8_t *, unsigned *));          \
    f(OPENSSL_cleanse, void, (void *, size_t));                                                                       \
    f(BIO_new_mem_buf, BIO *, (const void *, int));                                                                   \
    f(BIO_free, int, (BIO *));                                                                                        \
    f(ERR_clear_error, void, (void));                                                                                 \
    f(ERR_peek_last_error, unsigned long, (void));                                                                    \
    f(ERR_reason_error_string, const char *, (unsigned long));                                                        \
    f(OpenSSL_version, const char *, (int));

struct openssl {
#define DECLARE(name, result, arguments) result(*name) arguments
    OPENSSL_FUNCTIONS(DECLARE)
#undef DECLARE
};

/* `path`: of its libssl; "": the usual one. NULL: `words`, of `size` bytes, says why none can be had. Any thread; loads a
 * library at the first call, for good. */
const struct openssl *openssl_find(const char *path, char *words, size_t size);

#endif
